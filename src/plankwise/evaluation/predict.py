"""A model's outputs on encoded texts: large batches of like length, no padding beyond the longest of each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import DataCollatorWithPadding

from plankwise.data.encode import Encoded


def predict(
    model: nn.Module,
    encoded: Encoded,
    tokenizer: Any,
    batch_size: int = 64,
    progress: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """Logits (N, C), or numbers (N,), in the order of the texts; the model is put in eval mode and left there."""
    model.eval()
    device = next(model.parameters()).device
    collate = DataCollatorWithPadding(tokenizer)
    order = np.argsort(encoded.lengths, kind="stable")[::-1]
    texts = encoded.dataset.remove_columns([name for name in ("labels",) if name in encoded.dataset.column_names])
    outputs: list[np.ndarray] = []
    with torch.inference_mode():
        for start in range(0, len(order), batch_size):
            rows = texts[order[start : start + batch_size].tolist()]
            batch: Any = collate([dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)])
            outputs.append(model(**batch.to(device)).logits.float().cpu().numpy())
            progress(len(outputs[-1]))
    ordered = np.concatenate(outputs)
    result = np.empty_like(ordered)
    result[order] = ordered
    return result[:, 0] if result.shape[1] == 1 else result
