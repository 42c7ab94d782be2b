"""A job on a tiny BERT of 4 layers, with real stages on 48 made-up texts."""

import pyarrow as pa
import pytest
import torch
from datasets import Dataset
from rich.console import Console
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

from plankwise.config import FitOptions, PlanOptions
from plankwise.context import Context
from plankwise.core.chain import find_chains
from plankwise.core.plan import even_plan
from plankwise.data.encode import Encoded
from plankwise.training.job import Job
from plankwise.training.stage import Stage


def make_bert(**changes):
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    return BertForSequenceClassification(BertConfig(**{**sizes, "num_hidden_layers": 4, **changes})).eval()


def make_texts():
    """Texts of 3 to 8 tokens that begin with [CLS], token 2; the class is told by the second token."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(3, 9, (48,), generator=generator).tolist()
    rows = [[2, *torch.randint(5, 50, (length - 1,), generator=generator).tolist()] for length in lengths]
    columns = {"input_ids": rows, "attention_mask": [[1] * n for n in lengths], "labels": [row[1] % 2 for row in rows]}
    return Encoded(Dataset(pa.table(columns)), lengths, 0)


def accuracy(examples, logits):
    return float((logits.argmax(-1) == examples.dataset["labels"][:]).mean())


@pytest.fixture
def make_job(tmp_path):
    """Makes a job; each evaluation scores higher than the one before, so that the last weights are the best."""

    def make(model=None, plan=None, *, training=None, **options) -> Job:
        model = model or make_bert()
        vocabulary = tmp_path / "vocab.txt"
        vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(45))]))
        scores = iter(range(1, 1000))

        def stage(name: str) -> Stage:
            return Stage(
                name=name,
                train=make_texts(),
                score=lambda model: {"score": float(next(scores))},
                tokenizer=BertTokenizer(vocab=str(vocabulary)),
                options=FitOptions(**{"epochs": 1, "batch_size": 8, "learning_rate": 1e-2, **(training or {})}),
                folder=tmp_path / "checkpoints" / name,
                context=Context(Console(quiet=True), tmp_path, seed=3),
            )

        plan = plan or even_plan(find_chains(model), 2)
        return Job(model, plan, PlanOptions(**options), 3, 16, make_texts(), stage, accuracy)

    return make
