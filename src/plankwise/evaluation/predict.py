"""A model's outputs on encoded texts: large batches of like length, no padding beyond the longest of each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from plankwise.data.batch import sorted_batches
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
    result = np.empty((0, 0), dtype=np.float32)
    with torch.inference_mode():
        for rows, batch in sorted_batches(encoded, tokenizer, batch_size):
            outputs = model(**batch.to(device)).logits.float().cpu().numpy()
            if not len(result):
                result = np.empty((len(encoded.lengths), outputs.shape[1]), dtype=outputs.dtype)
            result[rows] = outputs
            progress(len(rows))
    return result[:, 0] if result.shape[1] == 1 else result
