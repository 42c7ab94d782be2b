"""ALBERT: one block shared by all layers, so there is nothing to replace span by span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plankwise.errors import PlanError

if TYPE_CHECKING:
    from torch import nn


def check(model: nn.Module) -> None:
    """Always refuses.

    Raises:
        PlanError: ALBERT has no chain.
    """
    config: Any = model.config
    raise PlanError(
        f"ALBERT runs one shared block {config.num_hidden_layers} times, so it has no chain whose spans could be replaced; "
        "lower num_hidden_layers in its config and fine-tune it, or start from a BERT or RoBERTa predecessor"
    )
