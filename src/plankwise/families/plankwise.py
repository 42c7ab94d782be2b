"""Successors that a plan describes, that are packed, or that texts leave early: they are not compressed a second time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plankwise.errors import PlanError

if TYPE_CHECKING:
    from torch import nn


def check(model: nn.Module) -> None:
    """Always refuses.

    Raises:
        PlanError: the model's slots hold parts already, its weights are rounded, or texts leave it early.
    """
    if getattr(model.config, "packed", None):
        raise PlanError(
            "this model's weights are rounded to a few bits, and it is not compressed a second time; start from its predecessor, "
            "with method.name = 'qbert' and a plan that goes further"
        )
    if getattr(model.config, "exits", None):
        raise PlanError(
            "this model has early exits, and is not compressed a second time; start from its predecessor, with "
            "method.name = 'exits' and a plan that goes further"
        )
    raise PlanError(
        "this model was compressed before, with parts that its family's config does not describe, and is not compressed a second "
        "time; start from its predecessor, with a plan that goes further"
    )
