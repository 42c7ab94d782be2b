"""The last block of a classifier that reads the first token alone, computed for that token alone.

What the block makes of the other tokens goes nowhere, forward or back: they only lend it their keys and values. Loss and gradients
are those of the whole block; of its arithmetic a sixth is left.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from plankwise.core.slot import Place, StandIn

# Classifiers that are known to read nothing but the first token, and have blocks of BERT's form.
READERS = {f"{name}ForSequenceClassification" for name in ("Bert", "Camembert", "Electra", "Roberta", "XLMRoberta")}

# What a block may be given that is not computed here: with it, the block runs as it is.
UNKNOWN = ("encoder_hidden_states", "encoder_attention_mask", "past_key_values", "output_attentions")


@contextmanager
def first_token_only(model: nn.Module) -> Iterator[None]:
    """While open, the last block of such a model, or of a hybrid of one, gives the first token's state where there is a gradient.

    Other models are left as they are.
    """
    blocks = _last_blocks(model)
    for block in blocks:
        block.forward = functools.partial(_forward, block)
    try:
        yield
    finally:
        for block in blocks:
            del block.forward


def _last_blocks(model: nn.Module) -> list[nn.Module]:
    """What runs last: of a hybrid, the predecessor's last block and the last successor's."""
    if type(model).__name__ not in READERS:
        return []
    chain: Any = model.base_model.encoder.layer  # type: ignore[union-attr]
    last = chain[-1]
    if not isinstance(last, StandIn):
        return [last]
    found: list[Any] = [last.block]
    if isinstance(last, Place):
        found += [place.successor for place in chain if isinstance(place, Place) and place.slot is last.slot]
    return [block for block in found if type(block) is type(last.block)]


def _forward(
    block: Any, state: torch.Tensor, mask: torch.Tensor | None = None, *args: Any, **kwargs: Any
) -> torch.Tensor:
    more = [*args, *(kwargs.get(name) for name in UNKNOWN)]
    odd = mask is not None and mask.dim() != 4
    if odd or not torch.is_grad_enabled() or any(value is not None for value in more):
        return type(block).forward(block, state, mask, *args, **kwargs)
    first, attention = state[:, :1], block.attention.self
    query, key, value = (
        layer(tokens).unflatten(-1, (-1, attention.attention_head_size)).transpose(1, 2)
        for layer, tokens in ((attention.query, first), (attention.key, state), (attention.value, state))
    )
    seen = functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=None if mask is None else mask[:, :, :1],
        dropout_p=attention.dropout.p if attention.training else 0.0,
        scale=attention.scaling,
    )
    return block.feed_forward_chunk(block.attention.output(seen.transpose(1, 2).flatten(2), first))
