"""The queries, keys and values of a model's blocks, read where their maps give them, whatever computes the attention behind them.

Scores are q · k / √d, before mask and softmax. That a block's attention is softmax(scores) · v and nothing else, and which map
gives what, is tried out: a family that turns queries by position or adds a bias to the scores (rotary embeddings, T5) is refused.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import torch
from torch import nn

from plankwise.core.taps import tapped
from plankwise.errors import PlanError
from plankwise.parts import readable_heads
from plankwise.solving.bench import mask_name
from plankwise.training.losses import relation_loss, score_loss

TOLERANCE = 1e-2  # of the norm: what is drawn for the trial leaves any other form of attention far outside


@dataclass(frozen=True)
class Attention:
    """The attention of one block; queries, keys and values are (B, heads, T, d) each."""

    block: str
    maps: tuple[str, ...]  # paths in the model: three, or one that gives all three
    order: tuple[int, int, int]  # where among what the maps give are queries, keys and values
    num_heads: int
    causal: bool

    def vectors(self, states: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values, in float32, of a pass in which `states` were tapped after the maps."""
        given = [states[path] for path in self.maps]
        three = given if len(given) > 1 else given[0].chunk(3, -1)
        query, key, value = (
            three[place].float().unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for place in self.order
        )
        return query, key, value

    def ran(self, states: Mapping[str, torch.Tensor]) -> bool:
        """Whether the block ran in that pass."""
        return all(path in states for path in self.maps)


def scores_of(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """(B, heads, T, d) twice to (B, heads, T, T)."""
    return query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])


def group_heads(scores: torch.Tensor, seen: torch.Tensor, count: int) -> torch.Tensor:
    """Scores (B, heads, T, T) as (B, count, T, T): their softmax is the mean of that of as many consecutive heads each.

    `count` divides the number of heads; `seen` (B, 1, T, T): 1 for keys that a query may look at.
    """
    if scores.shape[1] == count:
        return scores
    logs = scores.masked_fill(seen == 0, torch.finfo(scores.dtype).min).log_softmax(-1)
    return logs.unflatten(1, (count, -1)).logsumexp(2)


def seen_keys(real: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """(B, T) real tokens to (B, 1, T, T): which keys a query may look at; 1 or 0."""
    seen = real[:, None, None, :].expand(-1, -1, real.shape[1], -1)
    return seen.tril() if causal else seen


def real_tokens(inputs: Mapping[str, torch.Tensor], name: str, like: torch.Tensor) -> torch.Tensor:
    """(B, T): 1 for tokens that are not padding, by the input of that name, or for all if there is none. `like`: (B, T, D)."""
    found = inputs.get(name)
    if found is None or found.shape != like.shape[:2]:
        return torch.ones(like.shape[:2], device=like.device)
    return found.float()


def find_attention(model: nn.Module, block: str, inputs: Mapping[str, torch.Tensor]) -> Attention:
    """The self-attention of the block at a path, found by a trial run on the inputs; the model's weights and mode stay as they are.

    Raises:
        PlanError: the block has none, or one whose scores are more than q · k / √d.
    """
    remedy = "choose a method that reads no attention, or give its attention a weight of 0"
    name = f"{block}, a {type(model.get_submodule(block)).__name__},"
    try:
        units = readable_heads(model.get_submodule(block))
    except PlanError as error:
        raise PlanError(f"{name} has no attention that can be read ({error}); {remedy}") from None
    maps = tuple(f"{block}.{feed.path}" for feed in units.feeds)
    if len(maps) * units.feeds[0].times != 3 or len({feed.size for feed in units.feeds}) > 1:
        raise PlanError(
            f"{name} has no queries, keys and values of the same width each (its maps are {', '.join(maps)}); {remedy}"
        )
    before = units.output != units.owner  # a map that reads what the heads give, or the attention, which gives it
    drawn, context = _try(model, maps, f"{block}.{units.output}", inputs, before=before)
    for order in permutations(range(3)):
        for causal in (False, True):
            found = Attention(block, maps, (order[0], order[1], order[2]), units.count, causal)
            if context is not None and _explains(found, drawn, context, inputs, mask_name(model, block)):
                return found
    raise PlanError(
        f"the attention of {name} is not softmax(q · k / √d) · v of what its maps give: positions turn its queries or add to "
        f"its scores; {remedy}"
    )


def _try(
    model: nn.Module, maps: Collection[str], output: str, inputs: Mapping[str, torch.Tensor], *, before: bool
) -> tuple[dict[str, torch.Tensor], torch.Tensor | None]:
    """A pass in which the maps give something drawn at random: that, and what the attention makes of it.

    The latter is read before the module at `output`, or after it.
    """
    drawn: dict[str, torch.Tensor] = {}
    generator = torch.Generator().manual_seed(0)

    def exchange(path: str) -> Any:
        def hook(_: nn.Module, args: Any, given: torch.Tensor) -> torch.Tensor:
            drawn[path] = torch.randn(given.shape, generator=generator).to(given)
            return drawn[path]

        return hook

    training = model.training
    handles = [model.get_submodule(path).register_forward_hook(exchange(path)) for path in maps]
    try:
        with tapped(model.eval(), [output], before=before) as read, torch.no_grad():
            model(**inputs)
            return drawn, read.get(output)
    finally:
        for handle in handles:
            handle.remove()
        model.train(training)


def _explains(
    found: Attention,
    drawn: Mapping[str, torch.Tensor],
    context: torch.Tensor,
    inputs: Mapping[str, torch.Tensor],
    mask: str,
) -> bool:
    query, key, value = found.vectors(drawn)
    real = real_tokens(inputs, mask, context)
    scores = scores_of(query, key).masked_fill(seen_keys(real, causal=found.causal) == 0, torch.finfo().min)
    expected = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
    if expected.shape != context.shape:
        return False
    expected, given = expected[real.bool()], context.float()[real.bool()]
    return bool((expected - given).norm() <= TOLERANCE * given.norm())


@dataclass(frozen=True)
class Matched:
    """An attention, and one of another model that it learns from."""

    ours: Attention
    theirs: Attention
    mask: str  # the input that says which tokens are padding

    def distance(
        self,
        states: Mapping[str, torch.Tensor],
        targets: Mapping[str, torch.Tensor],
        inputs: Mapping[str, torch.Tensor],
    ) -> torch.Tensor:
        """How far apart their scores are; `states` and `targets` were tapped after their maps."""
        return score_loss(*self._scores(states, targets, inputs))

    def divergence(
        self,
        states: Mapping[str, torch.Tensor],
        targets: Mapping[str, torch.Tensor],
        inputs: Mapping[str, torch.Tensor],
    ) -> torch.Tensor:
        """KL(their distribution || ours) by heads; of other numbers of heads, by the mean of each of as many groups as they can."""
        scores, wanted, seen, real = self._scores(states, targets, inputs)
        count = math.gcd(self.ours.num_heads, self.theirs.num_heads)
        return relation_loss(group_heads(scores, seen, count), group_heads(wanted, seen, count), seen, real)

    def _scores(
        self,
        states: Mapping[str, torch.Tensor],
        targets: Mapping[str, torch.Tensor],
        inputs: Mapping[str, torch.Tensor],
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Our scores and theirs, which keys are seen, and which tokens are real."""
        scores, wanted = (
            scores_of(*one.vectors(found)[:2]) for one, found in ((self.ours, states), (self.theirs, targets))
        )
        real = real_tokens(inputs, self.mask, states[self.ours.maps[0]])
        return scores, wanted, seen_keys(real, causal=self.theirs.causal), real


def match_attentions(
    model: nn.Module,
    teacher: nn.Module,
    pairs: Collection[tuple[str, str]],
    inputs: Mapping[str, torch.Tensor],
    *,
    as_many_heads: bool = True,
) -> list[Matched]:
    """For each block of the teacher and block of the model, as paths, their attentions.

    Raises:
        PlanError: one cannot be read, or they are to have as many heads as each other, and have not.
    """
    found: list[Matched] = []
    for theirs, ours in pairs:
        one = Matched(
            find_attention(model, ours, inputs), find_attention(teacher, theirs, inputs), mask_name(teacher, theirs)
        )
        if as_many_heads and one.ours.num_heads != one.theirs.num_heads:
            raise PlanError(
                f"attention scores are compared head by head, but {ours} has {one.ours.num_heads} heads and the predecessor's "
                f"{theirs} has {one.theirs.num_heads}; choose a plan.part that keeps all heads, give attention a weight of 0, or "
                "choose method.name = 'minilm' with version = 2, which needs no equal number"
            )
        found.append(one)
    return found


@dataclass(frozen=True)
class Readings:
    """What the latest pass of a model left at its taps."""

    given: dict[str, torch.Tensor]  # before modules
    states: dict[str, torch.Tensor]  # after them

    def forget(self) -> None:
        self.given.clear()
        self.states.clear()


@contextmanager
def reading(
    model: nn.Module,
    *,
    before: Collection[str] = (),
    after: Collection[str] = (),
    attentions: Collection[Attention] = (),
) -> Iterator[Readings]:
    """While open, passes of the model fill in the readings: states before and after modules, and what attentions' maps give."""
    maps = [path for attention in attentions for path in attention.maps]
    with tapped(model, before, before=True) as given, tapped(model, [*after, *maps]) as states:
        yield Readings(given, states)
