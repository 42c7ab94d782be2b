"""What a method is given, and what it gives back."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from plankwise.core.plan import Plan
from plankwise.training.stage import Stage, StageResult


@dataclass(frozen=True)
class Job:
    """A predecessor to compress by a plan; `stage` makes one training stage by its name."""

    predecessor: nn.Module  # given away: a method may change it
    plan: Plan
    init: str
    seed: int
    stage: Callable[[str], Stage]


@dataclass(frozen=True)
class Outcome:
    successor: nn.Module
    stage: StageResult
    skipped_steps: int = 0
