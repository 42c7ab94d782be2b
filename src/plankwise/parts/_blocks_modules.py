"""What successors of another kind than the predecessor's blocks are made of: how they are called, attention, feed-forward networks.

A successor is called with whatever its span's first block is called with, and gives what that gives. Which tokens are padding it
reads off the mask (see `find_real`). Of a cache of keys and values it makes another use than a block: it keeps the states that it
was given, and computes what it gives for new tokens from all of them, so that text is generated as without a cache.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn
from torch.nn import functional

from plankwise.core.slot import is_cache, state_given
from plankwise.errors import RunError

if TYPE_CHECKING:
    from plankwise.parts._blocks import Form

MASKS = ("attention_mask", "attn_mask", "src_mask", "mask")
PADDING = "src_key_padding_mask"  # of torch's own blocks, True where there is padding
BLOCKED = -5000.0  # what additive masks have for tokens that are not read is below it in every precision
ACTIVATIONS = (nn.GELU, nn.ReLU, nn.SiLU, nn.Tanh, nn.LeakyReLU, nn.ELU, nn.Mish)


class Successor(nn.Module):
    """A successor that gives `compute(state, real)` of states (B, T, D), where `real` (B, T) is False at padding, or None."""

    mixes = True  # tokens read other tokens

    def __init__(self, form: Form) -> None:
        super().__init__()
        self.form = form
        self.layer_idx = form.layer_idx  # a decoder's place in a cache
        for name, value in form.settings:
            setattr(self, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(self.form.names, args, strict=False)), **kwargs}
        state = state_given(args, kwargs)
        length, real = state.shape[1], find_real(given, state)
        cache = next((value for value in given.values() if is_cache(value)), None)
        if cache is not None and self.layer_idx is not None:
            state, real = self._remember(cache, state, real)
        state = self.compute(state, real)[:, -length:]
        return state if self.form.extra is None else (state, *[None] * self.form.extra)

    def compute(self, state: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        raise NotImplementedError

    def _remember(
        self, cache: Any, state: torch.Tensor, real: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """All states that the cache was given and which of them are real; of a part that does not mix, the new ones."""
        cache = getattr(cache, "self_attention_cache", cache)
        before = int(cache.get_seq_length(self.layer_idx))
        known = torch.ones_like(state[..., :1]) if real is None else real[..., None].to(state.dtype)
        kept = state if self.mixes else known
        states, known = cache.update(kept[:, None], known[:, None], self.layer_idx)
        if not self.mixes or not before:
            return state, real
        if states.shape[2] != before + state.shape[1]:
            raise RunError(
                f"a {type(self).__name__} needs all {before + state.shape[1]} states of a text, and the cache gives "
                f"{states.shape[2]}: it has a window or a fixed size; generate with use_cache=False"
            )
        return states[:, 0], known[:, 0, :, 0] > 0


class Ending(Successor):
    """norm(x + Wg) in the place of a post-LN block, x + Wg of a pre-LN one: what `solving` can solve."""

    def __init__(self, form: Form, block: nn.Module, features: int) -> None:
        super().__init__(form)
        self.output = nn.Linear(features, form.width)
        self.dropout = nn.Dropout(form.dropout)
        self.norm = copy_norm(form, block, -1) if form.post else None

    def end(self, state: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        total = state + self.dropout(self.output(features))
        return total if self.norm is None else self.norm(total)

    def begin_small(self) -> None:
        """Draws W anew so that the successor changes little; what feeds W is still trained from the first step on."""
        make_small(self.output)


class TwoSublayers(Ending):
    """A block as the predecessor's are: tokens are mixed, then a feed-forward network runs, each with a residual and a norm."""

    def __init__(self, form: Form, block: nn.Module, mixing: nn.Module, channels: int) -> None:
        super().__init__(form, block, channels)
        self.mixing = mixing
        self.mixing_norm = copy_norm(form, block, 0)
        self.ffn_norm = None if form.post else copy_norm(form, block, -1)
        self.up = nn.Linear(form.width, channels)
        self.act = find_activation(block)

    def compute(self, state: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        if self.form.post:
            state = self.mixing_norm(state + self.dropout(self.mixing(state, real)))
            read = state
        else:
            assert self.ffn_norm is not None
            state = state + self.dropout(self.mixing(self.mixing_norm(state), real))
            read = self.ffn_norm(state)
        return self.end(state, self.act(self.up(read)))

    def begin_small(self) -> None:
        super().begin_small()
        for one in cast(Any, self.mixing).endings():
            make_small(one)


class Attention(nn.Module):
    """Softmax attention of (B, T, D) that knows no positions but those that states tell of."""

    def __init__(self, width: int, inner: int, heads: int, *, causal: bool, values: int | None = None) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        # None of them is called what a family calls its own: transformers renames those when it loads old checkpoints.
        self.queries = nn.Linear(width, inner)
        self.keys = nn.Linear(width, inner, bias=False)  # what is added to all keys alike changes nothing
        self.values = nn.Linear(width if values is None else values, inner)

    def forward(
        self, state: torch.Tensor, real: torch.Tensor | None, values: torch.Tensor | None = None
    ) -> torch.Tensor:
        """What the heads give, side by side; values are read off the state unless others are given."""
        read = (self.queries(state), self.keys(state), self.values(state if values is None else values))
        query, key, value = (one.unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in read)
        allowed = find_allowed(real, state.shape[1], causal=self.causal, device=state.device)
        found = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        return found.transpose(1, 2).flatten(2)


def find_allowed(real: torch.Tensor | None, length: int, *, causal: bool, device: torch.device) -> torch.Tensor | None:
    """Which tokens each reads, (B or 1, 1, T, T); itself always, so that padding gives numbers too. None: all of them."""
    if real is None and not causal:
        return None
    places = torch.arange(length, device=device)
    left = places[:, None] >= places if causal else torch.ones(length, length, dtype=torch.bool, device=device)
    itself = places[:, None] == places
    return left[None, None] if real is None else (left & real[:, None, None]) | itself


def slide(state: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *, causal: bool) -> torch.Tensor:
    """A convolution over tokens, each channel by itself: states (B, T, C), weight (C, 1, K); beyond the ends there are zeros."""
    kernel = weight.shape[-1]
    sides = (kernel - 1, 0) if causal else ((kernel - 1) // 2, kernel // 2)
    padded = functional.pad(state.transpose(1, 2), sides)
    return functional.conv1d(padded, weight, bias, groups=weight.shape[0]).transpose(1, 2)


def without_padding(state: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
    """States (B, T, C) that are zero where there is padding."""
    return state if real is None else torch.where(real[..., None], state, torch.zeros_like(state))


def find_real(given: dict[str, Any], state: torch.Tensor) -> torch.Tensor | None:
    """Which tokens are not padding, (B, T), by what a block is given; None: all, or no mask says.

    A token is real if it may read itself. Masks are (B, T) with 0 at padding, or (B, 1, T or 1, keys) of which the last T keys are
    the state's own: True or 1 where a key is read, or, if they are numbers of floating point, added, and very small where not.
    """
    if given.get(PADDING) is not None:
        return ~given[PADDING] if given[PADDING].dtype == torch.bool else given[PADDING] > BLOCKED
    mask = next((value for name in MASKS if isinstance(value := given.get(name), torch.Tensor)), None)
    if mask is None or mask.dim() not in (2, 4) or (mask.dim() == 2 and mask.shape != state.shape[:2]):
        return None
    if mask.dim() == 2:
        return mask != 0
    allowed = (mask > BLOCKED if mask.is_floating_point() else mask != 0)[:, 0, :, -state.shape[1] :]
    real = allowed[:, 0] if allowed.shape[1] == 1 else allowed.diagonal(dim1=1, dim2=2)
    return real.expand(state.shape[:2])


def find_activation(block: nn.Module) -> nn.Module:
    """A copy of the first activation of a block; GELU if none of its modules is one."""
    found = (
        one
        for one in block.modules()
        if isinstance(one, ACTIVATIONS) or type(one).__module__ == "transformers.activations"
    )
    return copy.deepcopy(next(found, nn.GELU()))


def copy_norm(form: Form, block: nn.Module, which: int) -> nn.Module:
    """A copy of a block's first norm (0) or its last (-1); torch's LayerNorm where it has none."""
    return copy.deepcopy(block.get_submodule(form.norms[which])) if form.norms else nn.LayerNorm(form.width)


@torch.no_grad()
def make_small(linear: nn.Linear) -> None:
    """Draws a map anew, ten times smaller than torch does by default, without a bias."""
    linear.reset_parameters()
    linear.weight.mul_(0.1)
    if linear.bias is not None:
        linear.bias.zero_()
