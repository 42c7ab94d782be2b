"""The library: every part that offers candidates, with each of its options, in place of every span of a model's chains.

A block that is left as it is is a candidate too, without any effect.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from plankwise import parts
from plankwise.core.chain import Chain
from plankwise.core.plan import Plan, Slot, checked_plan
from plankwise.errors import ConfigError, PlanError
from plankwise.kinds import no_such
from plankwise.models.plans import build_successors

KEPT = "kept"  # in the place of a part: the block itself


@dataclass(frozen=True)
class Candidate:
    """What may stand in the place of a span; its `kind` tells what costs the same wherever it stands."""

    slot: Slot
    parameters: int
    kind: str
    blocks: tuple[int, ...] = field(compare=False, default=())  # the span's, all chains' blocks numbered through

    @property
    def is_kept(self) -> bool:
        return self.slot.part == KEPT

    @property
    def label(self) -> str:
        """The part with its options."""
        return label_of(self.slot.part, self.slot.options)

    @property
    def file_name(self) -> str:
        """A name for its file: readable, and its own."""
        key = json.dumps([self.slot.path, self.slot.span, self.slot.part, self.slot.options], sort_keys=True)
        readable = re.sub(r"[^A-Za-z0-9.]+", "-", f"{self.slot} {self.label}").strip("-")
        return f"{readable[:80]}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"

    def __str__(self) -> str:
        return f"{self.slot}: {self.label}"


@dataclass(frozen=True)
class Library:
    """The candidates, those that keep a block first, and the chains that they are for."""

    model: nn.Module
    chains: Sequence[Chain]
    candidates: Sequence[Candidate]

    @property
    def num_blocks(self) -> int:
        return sum(chain.length for chain in self.chains)

    @property
    def kept(self) -> list[Candidate]:
        """One a block, in the order of the blocks."""
        return [one for one in self.candidates if one.is_kept]

    @property
    def outside(self) -> int:
        return count_outside(self.model, self.chains)

    def plan(self, chosen: Iterable[Candidate]) -> Plan:
        """The plan of candidates that cover all blocks."""
        return self.plan_of([one.slot for one in chosen if not one.is_kept])

    def plan_of(self, slots: list[Slot]) -> Plan:
        return checked_plan(slots, list(self.chains))

    def find(self, plan: Plan) -> list[Candidate] | None:
        """The candidates that a plan is made of, in the order of their blocks; None if the library does not have them."""
        known = {_key(one.slot): one for one in self.candidates}
        found = [known.get(_key(slot)) for slot in plan.slots]
        taken = {block for one in found if one is not None for block in one.blocks}
        rest = [one for one in self.kept if one.blocks[0] not in taken]
        return None if None in found else sorted([*filter(None, found), *rest], key=lambda one: one.blocks)


def count_outside(model: nn.Module, chains: Iterable[Chain]) -> int:
    """The parameters outside of a model's chains."""
    return _count([model]) - _count(model.get_submodule(chain.path) for chain in chains)


def label_of(part: str, options: dict[str, Any]) -> str:
    """A part with its options, as tables name it."""
    told = ", ".join(f"{key} {value}" for key, value in options.items())
    return f"{part} ({told})" if told else part


def make_library(
    model: nn.Module,
    chains: Sequence[Chain],
    *,
    longest: int,
    names: Sequence[str] | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Library:
    """The library of a model: spans of up to `longest` blocks, all parts that offer candidates or those that `names` names.

    Raises:
        ConfigError: there is no such part, or it offers no candidate.
    """
    offered = find_offered(names)
    found: list[Candidate] = []
    unfit: dict[str, str] = {}
    start = 0
    for chain in chains:
        for index in range(chain.length):
            slot = Slot(chain.path, (index,), KEPT)
            block = model.get_submodule(slot.places[0])
            found.append(Candidate(slot, _count([block]), kind_of(block), (start + index,)))
        start += chain.length
    keeping = {one.slot.places[0]: one.kind for one in found}
    start = 0
    for chain in chains:
        for span in _spans(chain, longest):
            for part, options in offered:
                slot = Slot(chain.path, span, part, options)
                try:
                    (module,) = build_successors(model, Plan((slot,)), init="lower", seed=0)
                except PlanError as error:
                    unfit.setdefault(label_of(part, options), str(error))
                    continue
                own = kind_of(module)
                kind = own if own == keeping[slot.places[0]] else f"{own} {label_of(part, options)}"
                if len(span) > 1 or kind != own:  # else it is the block itself
                    found.append(Candidate(slot, _count([module]), kind, tuple(start + index for index in span)))
        start += chain.length
    for label, why in unfit.items():
        tell(f"{label} is left out where it does not fit: {why}")
    return Library(model, chains, found)


def kind_of(module: nn.Module) -> str:
    """A name for all modules of the same class and shapes."""
    shapes = [(name, list(value.shape)) for name, value in module.state_dict().items()]
    told = json.dumps([type(module).__module__, type(module).__qualname__, shapes])
    return f"{type(module).__name__}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"


def find_offered(names: Sequence[str] | None) -> list[tuple[str, dict[str, Any]]]:
    """What all parts offer, or those that `names` names, each with its options.

    Raises:
        ConfigError: there is no such part, or it offers no candidate.
    """
    known = parts.candidates()
    offering = list(dict.fromkeys(part for part, _ in known))
    for name in names or ():
        if name not in offering:
            raise ConfigError(f"--parts has {name!r}; {no_such(name, offering, 'part that offers candidates')}")
    return [(part, options) for part, options in known if names is None or part in names]


def _spans(chain: Chain, longest: int) -> list[tuple[int, ...]]:
    """All spans in which no block behind the first changes the state's shape."""
    found = [
        tuple(range(first, first + length))
        for length in range(1, min(longest, chain.length) + 1)
        for first in range(chain.length - length + 1)
    ]
    return sorted(span for span in found if not set(span[1:]) & set(chain.changing))


def _key(slot: Slot) -> tuple[str, tuple[int, ...], str, str]:
    return slot.path, slot.span, slot.part, json.dumps(slot.options, sort_keys=True)


def _count(modules: Iterable[nn.Module]) -> int:
    """The parameters of modules together, those that are shared counted once."""
    return sum({id(one): one.numel() for module in modules for one in module.parameters()}.values())
