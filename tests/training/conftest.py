import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification


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
