"""The last block of a classifier that reads the first token alone, computed for that token alone.

What the block makes of the other tokens goes nowhere, forward or back: they only lend it their keys and values. Loss and gradients
are those of the whole block; of its arithmetic a sixth is left.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from plankwise.core.hybrid import Hybrid
from plankwise.core.slot import Place, StandIn
from plankwise.training.dropout import FastDropout

# What a block may be given that is not computed here: with it, the block runs as it is.
UNKNOWN = ("encoder_hidden_states", "encoder_attention_mask", "past_key_values", "output_attentions")
# What blocks of BERT's form have; whether the model reads the first token alone is seen by trying.
FORM = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.self.dropout",
    "attention.output",
)
TOLERANCE = 1e-4


@contextmanager
def first_token_only(model: nn.Module, inputs: Mapping[str, torch.Tensor]) -> Iterator[bool]:
    """While open, the last block of a model gives the first token's state alone where there is a gradient; gives whether it does.

    Only if that makes no difference to the model's outputs for the `inputs`: it is tried out, of a hybrid with the predecessor
    and with the successor in every slot. Other models are left as they are, and so are blocks in which anything stands that is
    not the family's own.
    """
    blocks = _last_blocks(model)
    with ExitStack() as opened:
        if blocks and _makes_no_difference(model, blocks, inputs):
            opened.enter_context(_narrowed(blocks))
            yield True
        else:
            yield False


@contextmanager
def _narrowed(blocks: list[nn.Module]) -> Iterator[None]:
    before = [type(block) for block in blocks]
    for block in blocks:
        # By its class, not by an attribute: a copy of the block then runs on itself.
        block.__class__ = type(type(block).__name__, (type(block),), {"forward": _forward})
    try:
        yield
    finally:
        for block, kind in zip(blocks, before, strict=True):
            block.__class__ = kind


def _last_blocks(model: nn.Module) -> list[nn.Module]:
    """What runs last in an encoder of BERT's form: of a hybrid, the predecessor's last block and the last successor's."""
    encoder = getattr(getattr(model, "base_model", None), "encoder", None)
    chain: Any = getattr(encoder, "layer", None)
    if not isinstance(chain, nn.ModuleList):
        return []
    last = chain[-1]
    found: list[Any] = [last.block] if isinstance(last, StandIn) else [last]
    if isinstance(last, Place):
        found += [place.successor for place in chain if isinstance(place, Place) and place.slot is last.slot]
    kind = type(found[0])
    return [block for block in found if type(block) is kind and _is_whole(block)]


def _is_whole(block: Any) -> bool:
    """Whether a block has BERT's form and every module in it is its family's own, or torch's: no part stands in for one."""
    names = {name for name, _ in block.named_modules()}
    family = type(block).__module__
    return (
        names.issuperset(FORM)
        and hasattr(block, "feed_forward_chunk")
        and all(
            type(module).__module__ in (family, "transformers.activations", FastDropout.__module__)
            or type(module).__module__.startswith("torch.")
            for module in block.modules()
        )
    )


def _makes_no_difference(model: nn.Module, blocks: list[nn.Module], inputs: Mapping[str, torch.Tensor]) -> bool:
    """Whether all of the blocks run, and the model answers the same with them narrowed."""
    training, ran = model.training, set[int]()
    handles = [block.register_forward_hook(lambda module, *given: ran.add(id(module))) for block in blocks]
    model.eval()
    try:
        masks = [model.masked(False), model.masked(True)] if isinstance(model, Hybrid) else [nullcontext()]
        for mask in masks:
            with mask, torch.enable_grad():
                whole = _logits(model, inputs)
                with _narrowed(blocks):
                    narrow = _logits(model, inputs)
            if whole is None or narrow is None or whole.shape != narrow.shape:
                return False
            if not torch.allclose(whole, narrow, atol=TOLERANCE, rtol=TOLERANCE):
                return False
        return len(ran) == len(blocks)  # LayerDrop leaves some out in eval mode: then nothing was tried
    finally:
        for handle in handles:
            handle.remove()
        model.train(training)


def _logits(model: nn.Module, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor | None:
    """What the model answers; None if it cannot, because it reads tokens that are not there."""
    try:
        output: Any = model(**inputs)
    except (IndexError, RuntimeError, ValueError):
        return None
    found = output.get("logits")
    return None if found is None else found.detach()


def _forward(
    block: Any, state: torch.Tensor, mask: torch.Tensor | None = None, *args: Any, **kwargs: Any
) -> torch.Tensor:
    more = [*args, *(kwargs.get(name) for name in UNKNOWN)]
    odd = mask is not None and mask.dim() != 4
    if odd or not torch.is_grad_enabled() or any(value is not None for value in more):
        return type(block).__mro__[1].forward(block, state, mask, *args, **kwargs)  # type: ignore[attr-defined]
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
