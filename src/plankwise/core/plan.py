"""The plan: which slots a model gets. Even spans, late ones, listed ones, or any path; to and from JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from plankwise.errors import PlanError, shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from plankwise.core.chain import Chain


@dataclass(frozen=True)
class Slot:
    """A place in the model: a span of a chain's blocks, or the one module at `path` when `span` is empty."""

    path: str
    span: tuple[int, ...] = ()
    part: str = "layers"
    options: dict[str, Any] = field(default_factory=dict, hash=False)  # of the part, as a recipe writes them

    @property
    def places(self) -> tuple[str, ...]:
        """The paths of the modules that the successor replaces, in the order in which they run."""
        return tuple(f"{self.path}.{index}" for index in self.span) or (self.path,)

    def __str__(self) -> str:
        if not self.span:
            return self.path
        last = f"-{self.span[-1]}" if len(self.span) > 1 else ""
        return f"{self.path} {self.span[0]}{last}"


@dataclass(frozen=True)
class Plan:
    """All slots, in the order in which they run."""

    slots: tuple[Slot, ...]

    def to_json(self) -> list[dict]:
        return [asdict(slot) for slot in self.slots]

    @classmethod
    def from_json(cls, data: list[dict]) -> Plan:
        """The plan that `to_json` gave.

        Raises:
            PlanError: it is something else.
        """
        for slot in data if isinstance(data, list) else [data]:
            if not _is_slot(slot):
                raise PlanError(
                    f"the plan has {shorten(repr(slot), 400)} for a slot; a slot has a path, a span (whole numbers), a part and "
                    "options: give the plan as plankwise wrote it"
                )
        return cls(
            tuple(Slot(slot["path"], tuple(slot["span"]), slot["part"], slot.get("options", {})) for slot in data)
        )

    @property
    def chains(self) -> list[str]:
        """The paths of the chains that have slots of blocks."""
        return list(dict.fromkeys(slot.path for slot in self.slots if slot.span))

    def inside(self, path: str) -> Plan:
        """The slots below `path`, as a plan of the module that stands there."""
        below = f"{path}." if path else ""
        return Plan(
            tuple(
                replace(slot, path=slot.path.removeprefix(below)) for slot in self.slots if slot.path.startswith(below)
            )
        )

    def kept(self, path: str, length: int) -> list[int]:
        """Of a chain of so many blocks, the indices that have a block after collapse."""
        removed = self._removed(path)
        return [index for index in range(length) if index not in removed]

    def after_collapse(self, path: str) -> str:
        """Where the module at `path` stands once the chains have been shortened."""
        for chain in self.chains:
            if path.startswith(f"{chain}."):
                index, dot, rest = path.removeprefix(f"{chain}.").partition(".")
                before = sum(removed < int(index) for removed in self._removed(chain))
                return f"{chain}.{int(index) - before}{dot}{rest}"
        return path

    def _removed(self, path: str) -> set[int]:
        return {index for slot in self.slots if slot.path == path for index in slot.span[1:]}


def even_plan(
    chains: list[Chain], successors: int | None = None, part: str = "layers", options: dict[str, Any] | None = None
) -> Plan:
    """Each chain cut into `successors` spans of one length; half as many spans as blocks if None.

    Raises:
        PlanError: a chain's blocks do not divide, or a span's later block changes the state's shape.
    """
    slots = []
    for chain in chains:
        count = _count(chain, successors)
        if count < 1 or chain.length % count:
            fitting = [str(n) for n in range(1, chain.length + 1) if chain.length % n == 0]
            raise PlanError(
                f"plan.successors is {count}, but {chain.length} blocks ({chain.path}) do not divide into {count} equal "
                f"spans; choose {', '.join(fitting[:-1])} or {fitting[-1]}, or list plan.spans"
            )
        slots += _slots(chain, [chain.length // count] * count, part, options)
    return checked_plan(slots, chains)


def late_plan(
    chains: list[Chain], successors: int | None = None, part: str = "layers", options: dict[str, Any] | None = None
) -> Plan:
    """Each chain cut into `successors` spans, the first of them one block, the longest last; half as many as blocks if None.

    Raises:
        PlanError: a chain has fewer blocks, or a span's later block changes the state's shape.
    """
    slots = []
    for chain in chains:
        count = _count(chain, successors)
        if not 1 <= count <= chain.length:
            raise PlanError(
                f"plan.successors is {count}, but there are {chain.length} blocks ({chain.path}); choose 1 to {chain.length}"
            )
        slots += _slots(chain, late_sizes(chain.length, count), part, options)
    return checked_plan(slots, chains)


def each_plan(chains: list[Chain], part: str = "layers", options: dict[str, Any] | None = None) -> Plan:
    """A successor for each block."""
    return checked_plan([slot for chain in chains for slot in _slots(chain, [1] * chain.length, part, options)], chains)


def graded_plan(chains: list[Chain], part: str, grades: Sequence[dict[str, Any] | None]) -> Plan:
    """A successor for each block, whose options change with its height: grades are laid evenly over each chain, and None leaves a
    block alone.

    Raises:
        PlanError: a chain has no block that is not left alone.
    """
    slots: list[Slot] = []
    for chain in chains:
        given = [grades[block * len(grades) // chain.length] for block in range(chain.length)]
        if not any(one is not None for one in given):
            raise PlanError(
                f"plan.cut leaves the lowest block alone, and {chain.path} has no other; choose plan.cut = 'each'"
            )
        slots += [Slot(chain.path, (block,), part, one) for block, one in enumerate(given) if one is not None]
    return checked_plan(slots, chains)


def late_sizes(length: int, count: int) -> list[int]:
    """The sizes of `count` spans over `length` blocks: 1, then as even as they can be, the longer ones last."""
    if count == 1:
        return [length]
    share, more = divmod(length - 1, count - 1)
    return [1, *(share + (index >= count - 1 - more) for index in range(count - 1))]


def spans_of(sizes: list[int]) -> list[list[int]]:
    """Consecutive spans of these sizes, from block 0 on."""
    ends = list(accumulate(sizes))
    return [list(range(end - size, end)) for end, size in zip(ends, sizes, strict=True)]


def _count(chain: Chain, successors: int | None) -> int:
    return max(1, chain.length // 2) if successors is None else successors


def _slots(chain: Chain, sizes: list[int], part: str, options: dict[str, Any] | None) -> list[Slot]:
    return [Slot(chain.path, tuple(span), part, options or {}) for span in spans_of(sizes)]


def listed_plan(
    chains: list[Chain], spans: list[list[int]], part: str = "layers", options: dict[str, Any] | None = None
) -> Plan:
    """The listed spans in each chain; a block in no span is left alone.

    Raises:
        PlanError: a span is empty, has a gap, lies outside its chain, overlaps another, or changes the state's shape after its
            first block.
    """
    if not spans:
        raise PlanError("plan.spans is empty; list at least one span, for example [[0, 1], [2, 3]]")
    return checked_plan(
        [Slot(chain.path, tuple(span), part, options or {}) for chain in chains for span in spans], chains
    )


def checked_plan(slots: list[Slot], chains: list[Chain]) -> Plan:
    """A plan of these slots, each chain's in the order of its blocks.

    Raises:
        PlanError: a span is empty, has a gap, lies outside its chain, changes the state's shape after its first block; two
            slots overlap; a slot lies inside another.
    """
    known = {chain.path: chain for chain in chains}
    for slot in slots:
        if slot.path in known:
            _check_span(slot, known[slot.path])
        elif slot.span:
            raise PlanError(
                f"slot {slot}: {slot.path} is not a chain of this model; chains: {', '.join(known) or 'none'}"
            )
    places = [(place, slot) for slot in slots for place in slot.places]
    for index, (place, slot) in enumerate(places):
        for other, other_slot in places[index + 1 :]:
            if place == other or place.startswith(f"{other}.") or other.startswith(f"{place}."):
                raise PlanError(f"slots {slot} and {other_slot} overlap at {place}; a module can be in one slot only")
    chain_order = {path: index for index, path in enumerate(dict.fromkeys(slot.path for slot in slots))}
    return Plan(tuple(sorted(slots, key=lambda slot: (chain_order[slot.path], slot.span))))


def _check_span(slot: Slot, chain: Chain) -> None:
    length = chain.length
    if not slot.span:
        raise PlanError(f"a span of {slot.path} is empty; list consecutive indices from 0 to {length - 1}")
    if min(slot.span) < 0 or max(slot.span) >= length:
        raise PlanError(
            f"span {list(slot.span)} lies outside {slot.path}, whose blocks are 0 to {length - 1}; "
            "correct the span, or name the chains it is meant for in plan.chains"
        )
    if slot.span != tuple(range(slot.span[0], slot.span[0] + len(slot.span))):
        raise PlanError(
            f"span {list(slot.span)} of {slot.path} is not consecutive; a successor replaces neighbours: "
            "list them in rising order without a gap, or make it several spans"
        )
    later = [index for index in slot.span[1:] if index in chain.changing]
    if later:
        chains_inside = f"name the chains inside in plan.chains ({', '.join(chain.inside)}), " if chain.inside else ""
        raise PlanError(
            f"span {list(slot.span)} of {slot.path}: block {later[0]} ({chain.block}) changes the state's shape, and a "
            f"successor is shaped like the span's first block; {chains_inside}list plan.spans in which "
            f"{_blocks(chain.changing)} or not at all, or name other modules in plan.slots"
        )


def _blocks(indices: tuple[int, ...]) -> str:
    if len(indices) == 1:
        return f"block {indices[0]} comes first"
    return f"blocks {', '.join(map(str, indices[:-1]))} and {indices[-1]} come first"


def match_paths(model: nn.Module, pattern: str) -> list[str]:
    """The paths of the modules that a slot's path means; `*` stands for any index.

    Raises:
        PlanError: there is none.
    """
    matches = [
        name
        for name, _ in model.named_modules()
        if name and name.count(".") == pattern.count(".") and fnmatchcase(name, pattern)
    ]
    if not matches:
        children = ", ".join(name for name, _ in model.named_children())
        raise PlanError(f"plan.slots: no module at {pattern!r}; the model's outermost modules are {children}")
    return matches


def _is_slot(slot: Any) -> bool:
    """Whether it is what a plan's JSON has for a slot."""
    if not isinstance(slot, dict) or not isinstance(slot.get("span"), list | tuple):
        return False
    named = isinstance(slot.get("path"), str) and isinstance(slot.get("part"), str)
    whole = all(isinstance(index, int) and not isinstance(index, bool) and index >= 0 for index in slot["span"])
    return named and whole and isinstance(slot.get("options", {}), dict)
