"""Models to export, each traced once for all formats; batches of other shapes than they are traced with."""

import functools
from types import SimpleNamespace

import pytest
import torch

TEXTS = ("a fine film", "the plot was dull and the music is very boring and weak", "lovely", "a", "the end was great")


@pytest.fixture(scope="package", autouse=True)
def traced_once():
    """Tracing takes seconds, and gives the same for every format."""
    from plankwise.export import _traced

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_traced, "trace", functools.cache(_traced.trace))
        yield


@pytest.fixture(scope="package")
def models(tiny_expert_folder, tiny):
    """A classifier and a masked language model with one table for embeddings and head, and their tokenizer."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    language = BertForMaskedLM(BertConfig(**sizes, vocab_size=1000, max_position_embeddings=64))
    return SimpleNamespace(
        labels=AutoModelForSequenceClassification.from_pretrained(tiny_expert_folder).eval(),
        text=language.eval(),
        tokenizer=AutoTokenizer.from_pretrained(tiny_expert_folder),
    )


@pytest.fixture(scope="package")
def batches(models):
    """One text, two words, and several with padding."""

    def encode(*texts):
        return dict(models.tokenizer(list(texts), padding=True, return_tensors="pt"))

    return [encode("lovely"), encode(*TEXTS), encode(*TEXTS, *TEXTS[:2])]
