import shutil
from types import SimpleNamespace

import pyarrow as pa
import pytest
import torch
from datasets import Dataset
from rich.console import Console
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

from plankwise.context import Context
from plankwise.data.encode import Encoded
from plankwise.training.stage import Stage


class Sentences(torch.utils.data.Dataset):
    """Random token ids whose class is told by the first one; of different lengths."""

    def __init__(self, count: int = 24) -> None:
        generator = torch.Generator().manual_seed(0)
        self.rows = []
        for index in range(count):
            ids = torch.randint(10, 50, (6,), generator=generator)
            ids[0] = index % 2
            self.rows.append({"input_ids": ids, "labels": torch.tensor(index % 2)})

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


@pytest.fixture
def sentences():
    return Sentences()


@pytest.fixture
def bert():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    return BertForSequenceClassification(config)


@pytest.fixture
def texts(tmp_path):
    """24 encoded texts with labels, a tokenizer for them, and stages that train on them."""
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(5, 50))]))
    tokenizer = BertTokenizer(vocab=str(vocabulary))
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(3, 9, (24,), generator=generator).tolist()
    rows = [torch.randint(5, 50, (length,), generator=generator).tolist() for length in lengths]
    columns = {
        "input_ids": rows,
        "token_type_ids": [[0] * n for n in lengths],
        "attention_mask": [[1] * n for n in lengths],
    }
    table = pa.table({**columns, "labels": [row[0] % 2 for row in rows]})
    table = table.cast(pa.schema([(name, pa.list_(pa.int32())) for name in columns] + [("labels", pa.int64())]))
    train = Encoded(Dataset(table), lengths, 0)
    folder = tmp_path / "checkpoints"

    def make_stage(name, options, other=None):
        score = {"score": 0.0}
        context = Context(Console(quiet=True), folder, seed=3)
        return Stage(name, other or train, lambda model: score, tokenizer, options, folder / name, context)

    return SimpleNamespace(
        train=train,
        tokenizer=tokenizer,
        make_stage=make_stage,
        forget=lambda: shutil.rmtree(folder, ignore_errors=True),
    )
