"""What candidates cost on this machine: their time as a share of the predecessor's, at one batch size, and their parameters.

Each kind of module is timed in turn with the first block, on what the predecessor gives it for a batch of the task's texts; their
ratio is never above what the multiply-adds allow, so that noise makes nothing fast. Modules of one kind cost the same wherever they
stand. What is outside of the chains (tokenizer, embeddings, head) is the time of the model with its blocks passed over.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import nn

from plankwise.core.plan import Plan
from plankwise.core.slot import StandIn, is_cache, state_given, state_of
from plankwise.evaluation.latency import Speed, Timed, measure_latency
from plankwise.models.plans import build_successors
from plankwise.runtimes.torch import TorchPredictor
from plankwise.search.library import Candidate, Library
from plankwise.solving.bench import Given

MOST_OUTSIDE = 0.95  # share of the time: more is noise, or leaves nothing to gain
WHOLE, REST = "whole", "rest"  # the predecessor, and what is left of it without its blocks


@dataclass(frozen=True)
class Costs:
    """Times by kind of module, against that of the first block."""

    outside: float  # share of the predecessor's time that is spent outside of its chains
    ratios: dict[str, float]
    sum_of_blocks: float  # the ratios of all of the predecessor's blocks
    parameters_outside: int
    batch_size: int
    length: int  # tokens that texts of the timed batch are padded to
    steady: bool = True
    multiply_adds: dict[str, int] = field(default_factory=dict)  # by kind
    timing: dict[str, Any] = field(default_factory=dict)

    def time(self, candidate: Candidate) -> float:
        """Share of the predecessor's time."""
        return (1 - self.outside) * self.ratios[candidate.kind] / self.sum_of_blocks

    def total_time(self, chosen: Iterable[Candidate]) -> float:
        """Share of the predecessor's time that a whole plan takes, what is outside of the chains included."""
        return self.outside + sum(map(self.time, chosen))

    def total_parameters(self, chosen: Iterable[Candidate]) -> int:
        return self.parameters_outside + sum(one.parameters for one in chosen)

    def to_json(self) -> dict:
        return asdict(self)


def measure_costs(
    library: Library,
    timed: Timed,
    *,
    batch_size: int,
    predictions: int,
    progress: Callable[[int, int], None] = lambda done, expected: None,
) -> Costs:
    """Times every kind of module in the library; the library's model is only read."""
    model, texts = library.model, find_batch(timed, batch_size)
    inputs = {name: value.to(next(model.parameters()).device) for name, value in timed.encode(texts).items()}
    given, given_back = watch(model, [one.slot.places[0] for one in library.kept], inputs)
    first = library.kept[0].kind
    modules = {kind: (module, given[place]) for kind, (module, place) in _by_kind(library).items()}
    against = {kind: first for kind in modules if kind != first}
    blocks = time_alone(modules, against, predictions=predictions, progress=progress)
    rest = {WHOLE: model, REST: _without_blocks(model, given_back)}
    same = Timed(texts, timed.encode, timed.answer)
    outside = _time(rest, same, batch_size, predictions, {REST: WHOLE}, progress)
    ratios = {kind: 1 / _faster(blocks, kind) for kind in against} | {first: 1.0}
    return Costs(
        outside=min(MOST_OUTSIDE, 1 / _faster(outside, REST)),
        ratios=ratios,
        sum_of_blocks=sum(ratios[one.kind] for one in library.kept),
        parameters_outside=library.outside,
        batch_size=batch_size,
        length=inputs["attention_mask"].shape[1],
        steady=all(
            one.steady for speed in (blocks, outside) for some in speed.speedups.values() for one in some.values()
        ),
        multiply_adds=blocks.multiply_adds,
        timing=outside.conditions,
    )


def find_batch(timed: Timed, batch_size: int) -> list[tuple[str, ...]]:
    """Of the texts in batches, in their order, one whose longest text is as long as that of most: the median."""
    lengths = timed.count_tokens()
    starts = range(0, max(1, len(timed.texts) - batch_size + 1), batch_size)
    longest = {start: max(lengths[start : start + batch_size]) for start in starts}
    middle = statistics.median_low(longest.values())
    start = next(one for one in starts if longest[one] == middle)
    some = timed.texts[start : start + batch_size]
    return [some[index % len(some)] for index in range(batch_size)]


class _Alone(nn.Module):
    """A module with what it is given, whatever the batch."""

    def __init__(self, module: nn.Module, given: Given) -> None:
        super().__init__()
        self.module = module
        self.given = given
        # Whoever counts asks a parameter for device and type, and a module may have none.
        self.asked = nn.Parameter(given.state.new_zeros(1), requires_grad=False)

    def forward(self, **ignored: Any) -> dict[str, torch.Tensor]:
        return {"state": state_of(self.given.run(self.module))}


class _Passed(StandIn):
    """Hands the state through; `rest` is what the block gives beside it."""

    def __init__(self, block: nn.Module, rest: tuple | None) -> None:
        super().__init__(block)
        self.rest = rest

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        state = state_given(args, kwargs)
        return state if self.rest is None else (state, *self.rest)


def time_alone(
    modules: Mapping[str, tuple[nn.Module, Given]],
    references: Mapping[str, str],
    *,
    predictions: int,
    progress: Callable[[int, int], None] = lambda done, expected: None,
) -> Speed:
    """Times modules in turn, each on what it is given, those in `references` against the one named there.

    The only batch size of what comes back is 1: a run with all that is given.
    """
    alone = {name: _Alone(module, given) for name, (module, given) in modules.items()}
    plain = Timed([("",)], lambda texts, *own: {"attention_mask": torch.ones(1, 1)}, lambda outputs: None)
    return _time(alone, plain, 1, predictions, references, progress)


@torch.no_grad()
def watch(
    model: nn.Module, places: list[str], inputs: Mapping[str, torch.Tensor]
) -> tuple[dict[str, Given], dict[str, tuple | None]]:
    """What each module is given in a run of the model, and what it gives beside its state; by path."""
    given: dict[str, Given] = {}
    rest: dict[str, tuple | None] = {}

    def before(place: str) -> Any:
        def hook(_: nn.Module, args: Any, kwargs: Any) -> None:
            plain = tuple(None if is_cache(value) else value for value in args)
            given[place] = Given(plain, {key: None if is_cache(one) else one for key, one in kwargs.items()})

        return hook

    def after(place: str) -> Any:
        def hook(_: nn.Module, args: Any, output: Any) -> None:
            rest[place] = tuple(output[1:]) if isinstance(output, tuple) else None

        return hook

    handles = []
    for place in places:
        block = model.get_submodule(place)
        handles += [
            block.register_forward_pre_hook(before(place), with_kwargs=True),
            block.register_forward_hook(after(place)),
        ]
    try:
        model.eval()(**inputs)
    finally:
        for handle in handles:
            handle.remove()
    return given, rest


def _by_kind(library: Library) -> dict[str, tuple[nn.Module, str]]:
    """For each kind a module of it, and the place of a block that it is timed in."""
    found: dict[str, tuple[nn.Module, str]] = {}
    for one in library.candidates:
        place = one.slot.places[0]
        if one.kind not in found:
            if one.is_kept:
                module = library.model.get_submodule(place)
            else:
                (module,) = build_successors(library.model, Plan((one.slot,)), init="lower", seed=0)
            found[one.kind] = (module.eval(), place)
    return found


def _without_blocks(model: nn.Module, rest: Mapping[str, tuple | None]) -> nn.Module:
    other = copy.deepcopy(model)
    for place, more in rest.items():
        other.set_submodule(place, _Passed(other.get_submodule(place), more))
    return other


def _time(
    modules: Mapping[str, nn.Module],
    timed: Timed,
    batch_size: int,
    predictions: int,
    references: Mapping[str, str],
    progress: Callable[[int, int], None],
) -> Speed:
    return measure_latency(
        {name: TorchPredictor(module) for name, module in modules.items()},
        timed,
        batch_sizes=[batch_size],
        predictions=predictions,
        references=references,
        progress=progress,
    )


def _faster(speed: Speed, name: str) -> float:
    """How many times faster than its reference, but no more than the multiply-adds allow."""
    (found,) = speed.speedups[name].values()
    return min(found.median, speed.bound.get(name, found.median))
