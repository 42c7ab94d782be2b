"""The sections [plan.fitting] and [plan.solving] of a recipe: starts of successors that are computed from texts."""

from typing import Literal

from pydantic import Field

from plankwise.options import Options


class FittingOptions(Options):
    share: float = Field(
        0.33, gt=0, lt=1, description="of the training steps, spent on fitting before the method starts"
    )
    learning_rate: float = Field(1e-3, gt=0, description="peak learning rate while fitting")
    start: str = Field("lower", description="weights that fitting starts from: any other init, solved too")
    texts: str | None = Field(None, description="text file with more texts to fit on, one a line; no labels are needed")


class SolvingOptions(Options):
    tokens: int = Field(
        30_000,
        ge=1,
        description="of the texts that successors are solved on; give four times the width of the widest map",
    )
    texts: str | None = Field(
        None, description="text file to solve on instead of the training texts, one a line; no labels are needed"
    )
    head: Literal["kept", "labels"] = Field(
        "kept",
        description="what answers behind solved successors: the predecessor's own head, or that head solved anew on labels",
    )
    head_examples: int = Field(
        4000, ge=2, description="for head = labels: labelled training examples, at most, that it is solved on"
    )
