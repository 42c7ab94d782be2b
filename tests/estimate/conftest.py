from types import SimpleNamespace

import pyarrow as pa
import pytest
import torch
from datasets import Dataset
from rich.console import Console
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

from plankwise.config import FitOptions
from plankwise.context import Context
from plankwise.data.encode import Encoded
from plankwise.estimate.phases import Estimate
from plankwise.estimate.rehearsal import RehearsedStage
from plankwise.estimate.timing import Budget
from plankwise.training.stage import Stage


@pytest.fixture
def bert():
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 32}
    return BertForSequenceClassification(BertConfig(vocab_size=50, max_position_embeddings=32, **sizes))


@pytest.fixture
def rehearsal(tmp_path, bert):
    """Makes stages over 24 texts of 3 to 12 tokens, 4 a step, rehearsed for one estimate."""
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(5, 50))]))
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(3, 13, (24,), generator=generator).tolist()
    rows = [torch.randint(5, 50, (length,), generator=generator).tolist() for length in lengths]
    table = pa.table({"input_ids": rows, "labels": [row[0] % 2 for row in rows]})
    found = SimpleNamespace(estimate=Estimate(Budget(share=1.0)), folder=tmp_path / "folder", lengths=lengths)

    def make(name="stage", *, estimate=found.estimate, **options):
        stage = Stage(
            name=name,
            train=Encoded(Dataset(table), lengths, 0),
            score=lambda model: pytest.fail("a rehearsal scores nothing"),
            tokenizer=BertTokenizer(vocab=str(vocabulary)),
            options=FitOptions(**{"epochs": 2, "batch_size": 4, "learning_rate": 1e-2, **options}),
            folder=tmp_path / "checkpoints",
            context=Context(Console(quiet=True), tmp_path, seed=3),
        )
        return RehearsedStage(**{**vars(stage), "folder": found.folder}, estimate=estimate, predecessor=bert)

    found.make = make
    return found
