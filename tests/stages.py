"""A stage on 48 made-up texts, and a tiny BERT of 4 layers to train in it."""

from pathlib import Path

import pyarrow as pa
import torch
from datasets import Dataset
from rich.console import Console
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

from plankwise.config import FitOptions
from plankwise.context import Context
from plankwise.data.encode import Encoded
from plankwise.training.stage import Stage


def make_stage(folder: Path, score=None, *, context=None, **options) -> Stage:
    """Each evaluation scores higher than the one before, unless `score` says otherwise."""
    vocabulary = folder.parent / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(45))]))
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(3, 9, (48,), generator=generator).tolist()
    rows = [torch.randint(5, 50, (length,), generator=generator).tolist() for length in lengths]
    labels = [row[0] % 2 for row in rows]
    table = pa.table({"input_ids": rows, "attention_mask": [[1] * n for n in lengths], "labels": labels})
    scores = iter(range(1, 1000))
    return Stage(
        name="stage",
        train=Encoded(Dataset(table), lengths, 0),
        score=score or (lambda model: {"score": float(next(scores))}),
        tokenizer=BertTokenizer(vocab=str(vocabulary)),
        options=FitOptions(**{"epochs": 3, "batch_size": 8, "learning_rate": 1e-2, **options}),
        folder=folder,
        context=context or Context(Console(quiet=True), folder, seed=3),
    )


def make_bert(**changes) -> BertForSequenceClassification:
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    return BertForSequenceClassification(BertConfig(**{**sizes, "num_hidden_layers": 4, **changes}))
