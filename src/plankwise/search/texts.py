"""The texts of a search, without labels: some to solve on, some that choose between starts, and some that measure end effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from torch import nn

from plankwise.data.batch import without_labels
from plankwise.data.encode import Encoded, encode
from plankwise.run.inputs import Run
from plankwise.solving.bench import Batches, Inputs
from plankwise.training.fitting import read_texts
from plankwise.training.solved import batches_of, draw_texts

MEASURING = 256  # texts, at most, that measure end effects
MEASURING_SHARE = 0.25  # of all texts, at most


@dataclass(frozen=True)
class Texts:
    """None of those that measure is solved on."""

    rest: Encoded
    measuring: Encoded
    tokenizer: Any
    seed: int

    def to_solve_on(self, tokens: int, model: nn.Module) -> tuple[Batches, list[Inputs]]:
        """As many tokens in batches, and the batches that choose between starts."""
        calibration, choosing = draw_texts(self.rest, tokens, self.seed)
        return batches_of(calibration, self.tokenizer, model), list(batches_of(choosing, self.tokenizer, model)())

    def to_measure_by(self, model: nn.Module) -> list[Inputs]:
        return list(batches_of(self.measuring, self.tokenizer, model)())


def divide_texts(run: Run) -> Texts:
    """The training texts of a run's task, or those that `plan.solving.texts` names, divided by the seed."""
    given = run.config.plan.solving.texts
    if given is None:
        texts = without_labels(run.task.train)
    else:
        table = pa.table({"text": read_texts(given, "plan.solving.texts")})
        texts = encode(table, run.tokenizer, run.config.training.max_length)
    order = np.random.default_rng([run.context.seed, 1]).permutation(len(texts.lengths))
    count = max(1, min(MEASURING, int(MEASURING_SHARE * len(order))))
    rest = order[count:] if len(order) > 1 else order
    return Texts(texts.take(np.sort(rest)), texts.take(order[:count]), run.tokenizer, run.context.seed)
