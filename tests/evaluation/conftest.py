"""Models whose outputs are known: each word adds its own logits."""

import pyarrow as pa
import pytest
import torch
from torch import nn
from transformers import AutoTokenizer
from transformers.modeling_outputs import SequenceClassifierOutput

from plankwise.data.encode import encode
from plankwise.data.source import Source
from plankwise.evaluation.latency import Timed
from plankwise.evaluation.scoring import Scorer
from plankwise.runtimes.torch import TorchPredictor


class WordModel(nn.Module):
    """Logits (B, C): the sum of the words' weights; words that are not listed weigh nothing."""

    def __init__(self, tokenizer, weights: dict[str, list[float]]) -> None:
        super().__init__()
        width = len(next(iter(weights.values())))
        self.weights = nn.Embedding(len(tokenizer), width)
        with torch.no_grad():
            self.weights.weight.zero_()
            for word, values in weights.items():
                self.weights.weight[tokenizer.convert_tokens_to_ids(word)] = torch.tensor(values)

    def forward(self, input_ids, attention_mask, **others):
        logits = (self.weights(input_ids) * attention_mask[..., None]).sum(1)
        return SequenceClassifierOutput(logits=logits)


@pytest.fixture(scope="session")
def tokenizer(tiny_model_folder):
    return AutoTokenizer.from_pretrained(tiny_model_folder)


@pytest.fixture
def word_model(tokenizer):
    return lambda weights: TorchPredictor(WordModel(tokenizer, weights))


@pytest.fixture
def make_timed(tokenizer):
    """Texts that are tokenised, cut to a length, padded, and answered by the highest logit."""

    def make(texts, max_length=8):
        def encode_texts(some):
            columns = [list(column) for column in zip(*some, strict=True)]
            return tokenizer(*columns, truncation=True, max_length=max_length, padding=True, return_tensors="pt")

        return Timed(list(texts), encode_texts, lambda outputs: outputs["logits"].argmax(-1).tolist())

    return make


@pytest.fixture
def make_scorer(tokenizer):
    """A scorer of `dev` rows (text, label), and the training table with the same columns."""

    def make(labels, dev, train=None, *, metrics=("accuracy",), order=None, batch_size=4):
        tables = [_table(rows) for rows in (train or dev, dev)]
        kind = "classes" if labels else "number"
        source = Source("words", kind, tuple(labels), tuple(metrics), tuple(metrics), tables[0], {"dev": tables[1]})
        if order is not None:
            source = source.reorder(tuple(order))
        encoded = {name: encode(table, tokenizer, 16) for name, table in source.dev.items()}
        return Scorer(source, encoded, tokenizer, batch_size), source.train

    return make


def _table(rows):
    texts, labels = zip(*rows, strict=True)
    return pa.table({"text": list(texts), "label": list(labels)})
