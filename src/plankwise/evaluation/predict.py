"""A model's outputs on encoded texts: large batches of like length, no padding beyond the longest of each."""

from typing import Any

import numpy as np

from plankwise.data.batch import sorted_batches
from plankwise.data.encode import Encoded
from plankwise.runtimes import Predictor


def predict(
    predictor: Predictor, encoded: Encoded, tokenizer: Any, batch_size: int = 64, output: str = "logits"
) -> np.ndarray:
    """One of the model's outputs, as a rule logits (N, C), or numbers (N,), in the order of the texts."""
    result = np.empty((0, 0), dtype=np.float32)
    for rows, batch in sorted_batches(encoded, tokenizer, batch_size):
        outputs = predictor(batch)[output].float().cpu().numpy()
        if not len(result):
            result = np.empty((len(encoded.lengths), outputs.shape[1]), dtype=outputs.dtype)
        result[rows] = outputs
    return result[:, 0] if result.shape[1] == 1 else result
