"""Solves the successors of a plan, slot by slot in the order in which they run.

For each slot there are two candidates, and the one with the smaller end effect is taken. `upper` has the span's last block, all of
whose linear maps are solved in the order of their run: each is given what the successors so far give, and is to give what the
same map gives in the predecessor. `lower` has the span's first block, of which the last map alone is solved, so that the block
gives what the span gives. Sums before a norm count by one over their variance, for that is what the norm makes of them.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import nn

from plankwise import parts
from plankwise.core.plan import Plan
from plankwise.errors import PlanError
from plankwise.models.plans import assemble
from plankwise.solving.bench import Batches, Bench, Inputs, mask_name
from plankwise.solving.choosing import Choosing
from plankwise.solving.effect import EndEffect
from plankwise.solving.maps import Map, Reading, find_maps, reading
from plankwise.solving.ridge import Ridge
from plankwise.solving.tokens import Places, find_places

ALL, LAST = "upper", "lower"  # the candidates, by the start of their weights
SAMPLES = 16  # texts that modules are tried out on
SAMPLE = -1  # the number of their batch
HELD_OUT_EVERY = 8  # one batch in so many chooses the ridge's strength
CHOOSING = 10_000  # tokens that parts choose by what they keep
Build = Callable[[str], list[nn.Module]]  # the successors of a plan, by the start of their weights


@dataclass(frozen=True)
class Solution:
    """Solved successors, and what became of each slot."""

    successors: list[nn.Module]
    effect_before: float  # of all successors, unsolved
    memory: dict[str, int]  # bytes, by what they are for
    slots: list[dict] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict:
        return {"effect_before": self.effect_before, "effect": self.slots[-1]["effect"], "slots": self.slots}


@dataclass
class Candidate:
    """A successor on its way to being solved."""

    start: str
    module: nn.Module
    groups: list[tuple[Map, ...]]  # what is solved, pass by pass
    wanted: list[tuple[Map, ...]]  # the maps of the span's last block that they are to give the same as
    ridges: dict[str, Ridge] = field(default_factory=dict)
    strengths: dict[str, float] = field(default_factory=dict)  # of each ridge, as held-out rows chose it
    outputs: dict[str, torch.Tensor] = field(
        default_factory=dict
    )  # of a narrower map, which of the wanted map's it has

    def ridge(self, one: Map) -> Ridge:
        if one.path not in self.ridges:
            bias, shape = one.has_bias(self.module), one.matrix(self.module).shape
            self.ridges[one.path] = Ridge(shape[0] - bias, shape[1], bias=bias)
        return self.ridges[one.path]

    def is_weighted(self, left: int) -> bool:
        """Whether tokens count by their place in the group that has so many behind it: what all tokens read does not."""
        return any(one.summed for group in self.groups[: len(self.groups) - left] for one in group)


@torch.no_grad()
def solve(
    model: nn.Module,
    plan: Plan,
    build: Build,
    batches: Batches,
    held_out: list[Inputs],
    folder: Path,
    *,
    keep_others: bool = False,
    show: Callable[[str], None] = lambda line: None,
) -> Solution:
    """Solves a plan's successors, in float32, on batches of texts; the model is only read.

    `held_out` texts choose between candidates; `folder` takes the states: it is empty, or has those that solving another plan of
    one slot with the same span and texts has left. `keep_others`: a successor that cannot be solved stays as it starts.

    Raises:
        PlanError: a successor does not end in a linear map, or shares weights with another.
    """
    started = time.monotonic()
    # Sums of half precision would not tell one candidate from another.
    successors = {start: [one.float() for one in build(start)] for start in (ALL, LAST)}
    _refuse_shared(plan, successors[LAST])
    hybrid = assemble(copy.deepcopy(model).float(), plan, list(successors[LAST]))
    sample = {name: value[:SAMPLES] for name, value in held_out[len(held_out) // 2].items()}
    bench = Bench(hybrid, sample, folder)
    effect = EndEffect(hybrid, held_out)
    places = find_places(bench, sample)
    tokens = _count_tokens(bench, batches, sample)
    held = [
        *model.parameters(),
        *hybrid.parameters(),
        *(one for built in successors[ALL] for one in built.parameters()),
    ]
    solution = Solution(
        [], effect.measure(bench.mask(len(plan.slots))), {"weights": sum(one.nbytes for one in held), "sums": 0}
    )
    untouched = True  # so far, all successors are the predecessor's own blocks
    for number, slot in enumerate(plan.slots):
        modules = {start: some[number] for start, some in successors.items()}
        choosing = Choosing(bench, number, batches, places[number], max(1, tokens // CHOOSING))
        candidates = _find_candidates(bench, number, modules, sample, choosing, keep_others=keep_others)
        # A block that is given what it was given in the predecessor misses nothing.
        untouched = untouched and len(slot.span) == 1 and _is_copy(candidates[0].module, bench.last(number))
        sums = 0 if untouched else _solve_slot(bench, number, candidates, batches, places[number])
        solution.memory["sums"] = max(solution.memory["sums"], sums)
        effects: dict[str, float] = {}
        for candidate in candidates:
            bench.place(number).successor = candidate.module
            effects[candidate.start] = effect.measure(bench.mask(number + 1))
        best = min(candidates, key=lambda one: effects[one.start])
        bench.place(number).successor = best.module
        bench.forget(number)
        solution.successors.append(best.module)
        solution.slots.append(
            {
                "slot": str(slot),
                "start": best.start,
                "maps": sum(map(len, best.groups)),
                "effect": effects[best.start],
                "effects": effects,
                "strengths": best.strengths,
                "weights": {"first": places[number].first, "last": places[number].last},
            }
        )
        show(
            f"solving: {slot}, {number + 1} of {len(plan.slots)}, from its {best.start} block, effect {effects[best.start]:.3f}"
        )
    return replace(solution, seconds=time.monotonic() - started)


def _refuse_shared(plan: Plan, successors: list[nn.Module]) -> None:
    owners: dict[int, object] = {}
    for slot, successor in zip(plan.slots, successors, strict=True):
        for parameter in successor.parameters():
            if (other := owners.setdefault(id(parameter), slot)) is not slot:
                raise PlanError(
                    f"successors are to be solved one after the other, but those of slots {other} and {slot} share weights; "
                    "choose another plan.init, for example lower"
                )


def _find_candidates(
    bench: Bench,
    number: int,
    modules: dict[str, nn.Module],
    inputs: Inputs,
    choosing: Choosing,
    *,
    keep_others: bool,
) -> list[Candidate]:
    """What could take a slot; one alone if the span is one block, or the successor is not built like the span's last block."""
    slot, last = bench.slots[number], bench.last(number)
    if not parts.is_solved(slot):
        module = modules[LAST].eval()
        choosing.choose(module, upper=False)
        return [Candidate(LAST, module, [], [])]
    given = bench.find_given(last, inputs)
    wanted = find_maps(last, lambda: given.run(last))
    given = bench.find_slot_given(number, inputs, SAMPLE)
    found: list[Candidate] = []
    for start, module in modules.items():
        module.eval()
        if next(module.parameters(), None) is None:  # there is nothing to solve in it
            return [Candidate(start, module, [], [])]
        maps = find_maps(module, lambda module=module: given.run(module))  # type: ignore[misc]
        if not wanted or not maps or not _end_alike(module, maps[-1][-1], last, wanted[-1][-1]):
            continue
        if start == ALL and maps == wanted:
            found.append(
                _compare(
                    Candidate(start, module, maps, wanted, outputs=choosing.choose(module, upper=start == ALL)), last
                )
            )
        elif start == LAST and (len(slot.span) > 1 or not found):
            choosing.choose(module, upper=start == ALL)
            norm, other = maps[-1][-1].norm, wanted[-1][-1].norm
            if norm is not None and other is not None:
                module.get_submodule(norm).load_state_dict(last.get_submodule(other).state_dict())
            found.append(Candidate(start, module, [maps[-1][-1:]], [wanted[-1][-1:]]))
    if not found and keep_others:
        return [Candidate(start, module, [], []) for start, module in modules.items()]
    if not found:
        raise PlanError(
            f"successors are to be solved, but that of slot {slot}, a {type(modules[LAST]).__name__}, and its span do not both end "
            "in a linear map of one width; choose another plan.init, for example lower"
        )
    return found


def _compare(candidate: Candidate, last: nn.Module) -> Candidate:
    """The candidate with those of its maps alone whose outputs can be told to be the wanted map's, all or some."""
    pairs = [
        [
            (one, other)
            for one, other in zip(maps, wanted, strict=True)
            if one.path in candidate.outputs or one.matrix(candidate.module).shape[1] == other.matrix(last).shape[1]
        ]
        for maps, wanted in zip(candidate.groups, candidate.wanted, strict=True)
    ]
    groups = [tuple(one for one, _ in some) for some in pairs if some]
    return replace(candidate, groups=groups, wanted=[tuple(other for _, other in some) for some in pairs if some])


def _end_alike(module: nn.Module, ending: Map, last: nn.Module, wanted: Map) -> bool:
    """Whether two modules end in a map of one width, and both in a norm behind it or both in none."""
    widths = {one.matrix(owner).shape[1] for one, owner in ((ending, module), (wanted, last))}
    return len(widths) == 1 and (ending.norm is None) == (wanted.norm is None)


def _is_copy(module: nn.Module, block: nn.Module) -> bool:
    own, other = module.state_dict(), block.state_dict()
    return type(module) is type(block) and all(torch.equal(own[name], other[name]) for name in other)


def _count_tokens(bench: Bench, batches: Batches, sample: Inputs) -> int:
    """Of all texts, padding not counted; where no mask says what is padding, by the sample's length."""
    mask = mask_name(bench.hybrid, bench.slots[0].path)
    if mask in sample:
        return sum(int(inputs[mask].sum()) for inputs in batches())
    state = bench.find_slot_given(0, sample, SAMPLE).state
    texts = sum(len(next(iter(inputs.values()))) for inputs in batches())
    return texts * state[..., 0].numel() // len(next(iter(sample.values())))


def _solve_slot(bench: Bench, number: int, candidates: list[Candidate], batches: Batches, places: Places) -> int:
    """Solves all candidates of a slot in as many passes as there are groups of maps; gives the bytes of the sums at their most."""
    last, most = bench.last(number), 0
    mask = mask_name(bench.hybrid, bench.slots[number].path)
    passes = max(len(one.groups) for one in candidates)
    for left in reversed(range(passes)):
        todo = [one for one in candidates if len(one.groups) > left]
        wanted = list(dict.fromkeys(one for candidate in todo for one in candidate.wanted[-1 - left]))
        for index, inputs in enumerate(batches()):
            with reading(last, wanted, stop=left > 0) as targets:
                bench.run_last(number, inputs, index, leave=left == 0)
            given = bench.find_slot_given(number, inputs, index)
            for candidate in todo:
                pairs = list(zip(candidate.groups[-1 - left], candidate.wanted[-1 - left], strict=True))
                with reading(candidate.module, [one for one, _ in pairs], stop=True) as found:
                    given.run(candidate.module)
                weights = (
                    places.weigh(inputs.get(mask)) if candidate.is_weighted(left) else Places().weigh(inputs.get(mask))
                )
                for one, other in pairs:
                    target = _narrowed(targets[other.path], candidate.outputs.get(one.path))
                    rows = _rows(one, found[one.path], target, weights)
                    held_out = index % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
                    candidate.ridge(one).add(*rows, held_out=held_out)
        most = max(most, sum(ridge.nbytes for candidate in todo for ridge in candidate.ridges.values()))
        for candidate in todo:
            for one in candidate.groups[-1 - left]:
                change, strength = candidate.ridges.pop(one.path).solve()
                before = one.matrix(candidate.module)
                one.set_matrix(candidate.module, before + change.to(before.device))
                candidate.strengths[one.path] = strength
    return most


def _narrowed(target: Reading, outputs: torch.Tensor | None) -> Reading:
    """Some outputs of a map that is added to nothing."""
    if outputs is None:
        return target
    assert target.output is not None
    return Reading(target.features, target.output[..., outputs])


def _rows(one: Map, found: Reading, target: Reading, weights: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    """Features, what the map misses and weights of the tokens that are not padding, one a row."""
    assert found.features is not None
    given, wanted = (found.total, target.total) if one.summed else (found.output, target.output)
    assert given is not None
    assert wanted is not None
    features, missed = found.features, wanted - given
    scale = 1 / wanted.var(-1).clamp_min(1e-9) if one.norm is not None else torch.ones_like(wanted[..., 0])
    if weights is None or weights.shape != scale.shape:
        return features.flatten(0, -2), missed.flatten(0, -2), scale.flatten()
    real = weights > 0
    return features[real], missed[real], (scale * weights)[real]
