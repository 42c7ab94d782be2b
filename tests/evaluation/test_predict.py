import numpy as np
import pyarrow as pa
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from plankwise.data.encode import encode
from plankwise.evaluation.predict import predict
from plankwise.runtimes.torch import TorchPredictor


@pytest.fixture(scope="module")
def texts(tiny):
    return [
        " ".join(text.split()[: 1 + index % 4] * (1 + index % 3)) for index, (text, _) in enumerate(tiny.make_rows(23))
    ]


@pytest.mark.parametrize("batch_size", [1, 4, 64])
def test_outputs_are_in_the_order_of_the_texts_whatever_the_batch_size(
    tiny_classifier_folder, tokenizer, texts, batch_size
):
    model = AutoModelForSequenceClassification.from_pretrained(tiny_classifier_folder).eval()
    with torch.inference_mode():
        one_by_one = torch.cat([model(**tokenizer(text, return_tensors="pt")).logits for text in texts])
    outputs = predict(
        TorchPredictor(model.train()), encode(pa.table({"text": texts}), tokenizer, 16), tokenizer, batch_size
    )
    assert outputs.shape == (23, 2)
    assert torch.allclose(torch.from_numpy(outputs), one_by_one, atol=1e-5)
    assert not torch.allclose(torch.from_numpy(outputs[::-1].copy()), one_by_one, atol=1e-5)


def test_labels_among_the_columns_are_not_given_to_the_model(word_model, tokenizer):
    encoded = encode(pa.table({"text": ["fine", "dull film"], "label": [1, 0]}), tokenizer, 16)
    assert predict(word_model({"fine": [0.0, 2.0]}), encoded, tokenizer).tolist() == [[0.0, 2.0], [0.0, 0.0]]


def test_one_output_per_text_is_a_number(word_model, tokenizer):
    encoded = encode(pa.table({"text": ["fine", "film", "fine fine"]}), tokenizer, 16)
    assert np.array_equal(predict(word_model({"fine": [1.5]}), encoded, tokenizer, 2), [1.5, 0.0, 3.0])
