"""Successors that a plan describes, not their family's config: they are not compressed a second time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plankwise.errors import PlanError

if TYPE_CHECKING:
    from torch import nn


def check(model: nn.Module) -> None:
    """Always refuses.

    Raises:
        PlanError: the model's slots hold parts already.
    """
    raise PlanError(
        "this model was compressed before, with parts that its family's config does not describe, and is not compressed a second "
        "time; start from its predecessor, with a plan that goes further"
    )
