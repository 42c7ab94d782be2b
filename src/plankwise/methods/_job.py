"""What a method is given, and what it gives back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pydantic import Field
from torch import nn

from plankwise.config import Options
from plankwise.core.plan import Plan
from plankwise.training.stage import Stage, StageResult


class MethodOptions(Options):
    mode: Literal["clean", "reference"] = Field(
        "clean", description="what the method means, or what its published code does"
    )


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
