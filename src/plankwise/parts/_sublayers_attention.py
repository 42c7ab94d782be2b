"""Modules of the parts for attention; parts import it when they build."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from plankwise.core.slot import is_cache, state_given
from plankwise.errors import PlanError
from plankwise.parts._sublayers import Attention

PATTERNS = ("current", "previous", "next", "left", "right", "end", "start")
OTHER_TEXTS = ("encoder_hidden_states", "key_value_states")  # what attention to another text is given
MIRRORED = {"next": "previous", "right": "left", "start": "end"}  # the same from a text's end


def attend(pattern: str, values: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """What heads of a fixed pattern make of their values (B, H, T, D); `real` (B, T) says which tokens are not padding.

    Of a token that the pattern gives nothing to look at, zeros. The tokens of a text stand side by side, wherever its padding is.
    """
    if pattern in MIRRORED:
        return attend(MIRRORED[pattern], values.flip(-2), real.flip(-1)).flip(-2)
    if pattern in ("current", "previous"):
        seen = values * real[:, None, :, None]
        return seen if pattern == "current" else _behind(seen, 1)
    # Sums in place of a matrix of weights: each token's weight depends on its own place alone. In float32, and at most 1, for a
    # cube of a place is more than half precision holds.
    place = real.float().cumsum(-1)
    weights = (real * (place / place[:, -1:].clamp_min(1)) ** 3)[:, None, :, None]
    weighted = values.float() * weights
    if pattern == "left":
        total, weight = (_behind(one.cumsum(-2), 2) for one in (weighted, weights))
    else:
        total, weight = (one.sum(-2, keepdim=True) for one in (weighted, weights))
    found = total / weight.clamp_min(torch.finfo(torch.float32).tiny)
    return found.to(values.dtype).expand_as(values)


def _behind(state: torch.Tensor, places: int) -> torch.Tensor:
    """The state (…, T, D) as it is so many tokens before each; zeros where there is none."""
    return functional.pad(state, (0, 0, places, 0))[..., : state.shape[-2], :]


def patterns_of(heads: int) -> list[str]:
    """The patterns of so many heads, each as often as any other, those of one pattern together."""
    counts = [(heads + len(PATTERNS) - 1 - place) // len(PATTERNS) for place in range(len(PATTERNS))]
    return [pattern for pattern, count in zip(PATTERNS, counts, strict=True) for _ in range(count)]


class FixedHeads(nn.Module):
    """Self-attention (B, T, D) to (B, T, D) whose first heads look at set places; the last `learned` ones have queries and keys."""

    def __init__(self, like: Any, learned: int) -> None:
        super().__init__()
        self.attention_head_size = size = like.attention_head_size
        self.num_attention_heads = like.num_attention_heads
        self.scaling = like.scaling
        self.learned = learned
        self.patterns = patterns_of(like.num_attention_heads - learned)
        if learned:
            self.query, self.key = (
                nn.Linear(one.in_features, learned * size, bias=one.bias is not None) for one in (like.query, like.key)
            )
        self.value = copy.deepcopy(like.value)
        self.dropout = nn.Dropout(like.dropout.p)

    def forward(self, state: torch.Tensor, attention_mask: Any = None, **others: Any) -> tuple[torch.Tensor, None]:
        # In the order of the heads that it replaces: maps are solved in the order of their run.
        learned = [self.divide(one(state)) for one in (self.query, self.key)] if self.learned else []
        values, real = self.divide(self.value(state)), find_real(attention_mask, state)
        groups = [self.patterns.count(pattern) for pattern in PATTERNS]
        *fixed, last = values.split([*groups, self.learned], 1)
        found = [attend(one, some, real) for one, some in zip(PATTERNS, fixed, strict=True) if one in self.patterns]
        if learned:
            dropout = self.dropout.p if self.training else 0.0
            seen = functional.scaled_dot_product_attention(
                learned[0], learned[1], last, attn_mask=real[:, None, None, :], dropout_p=dropout, scale=self.scaling
            )
            found.append(seen)
        return torch.cat(found, 1).transpose(1, 2).flatten(2), None

    def divide(self, state: torch.Tensor) -> torch.Tensor:
        """(B, T, heads together) to (B, H, T, of a head)."""
        return state.unflatten(-1, (-1, self.attention_head_size)).transpose(1, 2)


def find_real(mask: Any, state: torch.Tensor) -> torch.Tensor:
    """Which tokens are not padding (B, T), by the mask that an encoder's attention is given.

    Raises:
        PlanError: the mask is of another form.
    """
    if mask is None:
        return torch.ones(state.shape[:2], dtype=torch.bool, device=state.device)
    if not isinstance(mask, torch.Tensor) or mask.dim() not in (2, 4):
        raise PlanError(
            f"fixed attention is given a mask that is a {type(mask).__name__}, and reads masks of attn_implementation = 'sdpa' or "
            "'eager'; load the model with one of these"
        )
    if mask.dim() == 2:
        return mask.bool()
    keys = mask[:, 0, 0]  # all tokens of a text may see the same ones
    return (keys if keys.dtype == torch.bool else keys > -1).expand(state.shape[0], -1)


class NoAttention(nn.Module):
    """An attention sublayer whose heads give nothing: of what it adds to a state (B, T, D), a constant is left.

    With a norm, norm(state + constant), as BERT has it; without, the constant, which the block adds to its state.
    """

    def __init__(self, like: nn.Module, found: Attention, width: int) -> None:
        super().__init__()
        self.found = found
        self.bias = nn.Parameter(torch.zeros(width))
        self.norm = None if found.norm is None else copy.deepcopy(like.get_submodule(found.norm))

    def reset_parameters(self) -> None:
        bound = len(self.bias) ** -0.5  # as nn.Linear draws its bias
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, None]:
        state = state_given(args, kwargs)
        if all(kwargs.get(name) is None for name in OTHER_TEXTS):
            for cache in (value for value in (*args, *kwargs.values()) if is_cache(value)):
                # Keys that nobody reads, one number a token: how far a text has come is told by the first block's.
                count = state.new_zeros(state.shape[0], 1, state.shape[1], 1)
                getattr(cache, "self_attention_cache", cache).update(count, count, self.found.layer_idx)
        if self.norm is None:
            return self.bias.expand_as(state), None
        return self.norm(state + self.bias), None

    @torch.no_grad()
    def fill(self, sublayer: nn.Module) -> None:
        """Takes the norm of a sublayer, and for a constant what its output map adds when it is given zeros."""
        bias: Any = sublayer.get_submodule(self.found.output).bias
        self.bias.zero_() if bias is None else self.bias.copy_(bias)
        if self.norm is not None:
            assert self.found.norm is not None
            self.norm.load_state_dict(sublayer.get_submodule(self.found.norm).state_dict())


class Misfit:
    """How much of what an attention sublayer adds on texts would change if a head of it had a fixed pattern, squared and summed."""

    def __init__(self, successor: Any, donor: Any) -> None:
        self.heads: FixedHeads = successor.self
        output = donor.output.dense.weight.detach().unflatten(1, (self.heads.num_attention_heads, -1))
        # Of what a head gives, by what the output map makes of it.
        self.metric = torch.einsum("ohi,ohj->hij", output, output)
        self.total = {pattern: output.new_zeros(len(self.metric)) for pattern in dict.fromkeys(self.heads.patterns)}
        self.given: Any = None

    def note(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        """A forward hook of the donor's heads."""
        state = state_given(args, kwargs)
        mask = kwargs.get("attention_mask", args[1] if len(args) > 1 else None)
        values, found = self.heads.divide(module.value(state)), self.heads.divide(output[0])
        self.given = values, found, find_real(mask, state)

    def add(self, weights: torch.Tensor | None) -> None:
        """Takes in the latest run; weights (B, T) say how often a token counts."""
        values, found, real = self.given
        often = real.to(found) if weights is None or weights.shape != real.shape else weights.to(found)
        for pattern, total in self.total.items():
            missed = found - attend(pattern, values, real)
            squares = ((missed @ self.metric) * missed).sum(-1)
            total += (squares * often[:, None]).sum((0, 2))

    def assign(self) -> list[int]:
        """The head of the donor for each place of the successor, so that the sum is least; learned ones change nothing."""
        from scipy.optimize import linear_sum_assignment

        none = torch.zeros(len(self.metric))
        costs = [self.total[pattern].cpu() for pattern in self.heads.patterns] + [none] * self.heads.learned
        _, heads = linear_sum_assignment(torch.stack(costs).double().numpy())
        return heads.tolist()
