"""How a block is called, what it gives and whether it ends in a norm: what a successor of another kind has to know of it.

It is found by running a copy of the block that has shapes and no values, on a state alone (B, T, D) and what it needs beside it (a
mask, rotary embeddings, relative positions). A block whose output *is* what one of its norms gave is post-LN (BERT): its successors
give norm(x + Wg). Any other is pre-LN (GPT-2, Llama, ViT): its successors give x + Wg. Either way `solving` finds the map W that
they end in. There is no guess where a block cannot be run so: it is refused, and so is one that gives more than a state which
later blocks read (T5's relative positions), since a successor could not hand that on.

A block looks left only (it is causal) if one of its modules says so, by `is_causal` or `is_decoder`, or if its family has language
models that predict the next token and none that fill in a masked one. `plan.options.causal` overrules that, for a model that says
it by masks alone (CLIP's texts, a torch model of one's own).
"""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from plankwise.errors import PlanError
from plankwise.parts import PartOptions, Span, is_norm

if TYPE_CHECKING:
    import torch
    from torch import nn

HEAD_SIZES = ("head_dim", "attention_head_size", "head_size", "rotary_ndims", "rotary_dim")
ROTARY = "position_embeddings"  # cosines and sines, as transformers hands them to blocks
CROSS = ("encoder_attn", "crossattention", "cross_attn", "encdecattention")  # attentions that read another sequence
BATCH, TOKENS = 2, 3


class MixingOptions(PartOptions):
    """Of parts whose tokens read other tokens."""

    causal: bool | None = Field(None, description="tokens read those before them only; by default as in the block")


@dataclass(frozen=True)
class Form:
    """What a block is to those around it."""

    width: int  # of a state
    names: tuple[str, ...]  # of what it is called with, in their order
    extra: int | None  # how many items it gives behind the state, all None; None: it gives the state alone
    post: bool  # it gives what a norm gave
    norms: tuple[str, ...]  # the first and the last norm of a state's width that run; none if there are none
    causal: bool
    dropout: float
    layer_idx: int | None  # its place in a cache
    settings: tuple[tuple[str, str], ...]  # what the loop may read off it: which kind of attention it has, say


def find_form(span: Span, options: PartOptions) -> Form:
    """What is known of the block that stands first in a span.

    Raises:
        PlanError: it cannot be run on a state alone, gives more than a state, or reads another sequence that the part would not.
    """
    mixing = isinstance(options, MixingOptions)
    causal = options.causal if isinstance(options, MixingOptions) and options.causal is not None else is_causal(span)
    if mixing and (found := [path for path, _ in span.module.named_modules() if path.lower().endswith(CROSS)]):
        raise PlanError(
            f"{_holds(span)}, which reads another sequence by {found[0]}, and part {span.slot.part!r} would not; "
            "name the encoder's chain in plan.chains, or choose the part layers"
        )
    reasons: list[str] = []
    for state, kwargs in _tries(span):
        try:
            return _look(span, state, kwargs, causal=causal)
        except PlanError:
            raise
        except Exception as error:  # whatever a block does with what it is not given
            reasons.append((str(error).strip().splitlines() or [type(error).__name__])[0])
    raise PlanError(
        f"{_holds(span)}, which cannot be run on a state (B, T, D) alone ({reasons[0] if reasons else 'no width found'}); "
        f"part {span.slot.part!r} does not fit it: choose layers"
    )


def runs(span: Span, successor: nn.Module) -> bool:
    """Whether a successor keeps the shape of the states that its block is called with, beside all that the block may be given."""
    import torch

    for state, kwargs in _tries(span):
        try:
            with torch.no_grad():
                output = without_values(successor).to(state.dtype).eval()(state, **kwargs)
        except Exception:
            continue
        return (output[0] if isinstance(output, tuple) else output).shape == state.shape
    return False


def _holds(span: Span) -> str:
    return f"slot {span.slot} holds a {type(span.module).__name__}"


def _tries(span: Span) -> Iterator[tuple[torch.Tensor, dict[str, Any]]]:
    """States of all widths that the block may have, each with what else it may need, the least first."""
    import torch

    parameters = inspect.signature(span.module.forward).parameters
    needed = [name for name, one in list(parameters.items())[1:] if one.default is one.empty and one.kind < 2]
    own = next((one.dtype for one in span.module.parameters() if one.is_floating_point()), torch.float32)
    for dtype, width in itertools.product(dict.fromkeys((own, torch.bfloat16)), _widths(span)):
        empty = functools.partial(torch.empty, device="meta", dtype=dtype)
        rotary = [empty(1, TOKENS, size) for size in _rotary_sizes(span)] if ROTARY in parameters else [None]
        for waves in rotary:
            kwargs: dict[str, Any] = dict.fromkeys(needed)
            if waves is not None:
                kwargs[ROTARY] = (waves, waves)
            yield empty(BATCH, TOKENS, width), kwargs
            more = {
                "attention_mask": empty(BATCH, 1, TOKENS, TOKENS, dtype=torch.bool),
                "position_ids": empty(1, TOKENS, dtype=torch.long),
                "rel_embeddings": empty(2 * _num_relative(span), width),
            }
            yield empty(BATCH, TOKENS, width), kwargs | {key: more[key] for key in more if key in parameters}


def _num_relative(span: Span) -> int:
    """How many relative positions to each side a block of DeBERTa may be given embeddings of."""
    sizes = [getattr(one, "pos_ebd_size", 0) for one in span.module.modules()]
    named = [getattr(span.config, name, 0) for name in ("max_relative_positions", "max_position_embeddings")]
    return max(one for one in [*sizes, *named, 1] if isinstance(one, int))


def _widths(span: Span) -> list[int]:
    named = [getattr(span.config, "hidden_size", None)]
    read = [getattr(one, name, None) for one in span.module.modules() for name in ("in_features", "nx", "d_model")]
    return list(dict.fromkeys(one for one in [*named, *read] if isinstance(one, int)))


def _rotary_sizes(span: Span) -> list[int]:
    sizes = [getattr(one, name, None) for one in [*span.module.modules(), span.config] for name in HEAD_SIZES]
    found = [one for one in sizes if isinstance(one, int)]
    share = getattr(span.config, "partial_rotary_factor", None) or 1
    return list(dict.fromkeys([*(int(one * share) for one in found), *found]))


def _look(span: Span, state: torch.Tensor, kwargs: dict[str, Any], *, causal: bool) -> Form:
    import torch
    from torch import nn

    block = without_values(span.module).to(state.dtype).eval()
    ran: list[tuple[str, Any]] = []  # norms of a state's width, with what they gave

    def note(path: str) -> Any:
        return lambda module, args, output: ran.append((path, output)) if output.shape == state.shape else None

    for path, module in block.named_modules():
        if is_norm(module):
            module.register_forward_hook(note(path))
    with torch.no_grad():
        output = block(state, **kwargs)
    given = output[0] if isinstance(output, tuple) else output
    if not isinstance(given, torch.Tensor) or given.shape != state.shape:
        shape = tuple(given.shape) if isinstance(given, torch.Tensor) else type(given).__name__
        raise ValueError(f"of {tuple(state.shape)} it makes {shape}")
    rest = output[1:] if isinstance(output, tuple) else ()
    if any(isinstance(item, torch.Tensor) for item in rest):
        raise PlanError(
            f"{_holds(span)}, which gives more than a state (relative positions, say), and later blocks may read it; "
            f"part {span.slot.part!r} could not hand it on: choose layers"
        )
    drops = [one.p for one in block.modules() if isinstance(one, nn.Dropout)]
    places = [place for one in block.modules() if isinstance(place := getattr(one, "layer_idx", None), int)]
    return Form(
        width=state.shape[-1],
        names=tuple(inspect.signature(span.module.forward).parameters),
        extra=len(rest) if isinstance(output, tuple) else None,
        post=bool(ran) and ran[-1][1] is given,
        norms=(ran[0][0], ran[-1][0]) if ran else (),
        causal=causal,
        dropout=drops[-1] if drops else 0.0,
        layer_idx=places[0] if places else None,
        settings=tuple((name, value) for name, value in vars(span.module).items() if isinstance(value, str)),
    )


def without_values(block: nn.Module) -> nn.Module:
    """A copy of a block whose tensors have shapes alone."""
    from torch import nn

    memo: dict[int, Any] = {id(one): nn.Parameter(one.detach().to("meta")) for one in block.parameters()}
    memo |= {id(one): one.to("meta") for one in block.buffers()}
    return copy.deepcopy(block, memo)


def like(block: nn.Module, successor: nn.Module) -> nn.Module:
    """A successor in the precision of the block that it is built after."""
    return successor.to(next((one.dtype for one in block.parameters() if one.is_floating_point()), None))


def is_causal(span: Span) -> bool:
    """Whether the tokens of a block read those before them only."""
    if any(getattr(one, name, None) is True for one in span.module.modules() for name in ("is_causal", "is_decoder")):
        return True
    if getattr(span.config, "is_encoder_decoder", False):  # its decoder says so by itself
        return False
    from transformers.models.auto import modeling_auto

    family = getattr(span.config, "family", None) or getattr(span.config, "model_type", None)
    predicts = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return family in predicts and family not in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
