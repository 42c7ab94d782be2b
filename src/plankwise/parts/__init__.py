"""Kinds of successor, one file each; `part = "layers"` is `parts/layers.py`.

A file offers:

    REPLACES                         what its slots may hold: one of `REPLACEABLE`
    Options                          a PartOptions: what a recipe may say under [plan.options]
    build(spans, options)            one new module a span: the structure; weights need not mean anything yet
    start(model, slots, successors, *, init, seed, load)
                                     optional: gives the successors the weights that training starts from; the model is only read,
                                     `load(path)` gives another model of its class
    choose(successor, donor, runs, importance)
                                     optional, before a successor is solved: fills it anew from the block that its weights are from,
                                     for a part that keeps some of a block; each step of `runs()` runs the donor on a batch of texts
                                     and gives its tokens' weights (B, T), or None; `importance(counts)` gives for each map of the
                                     donor, by path, how much the answers depend on each of so many equal shares of what it reads.
                                     Gives, by the path of a map with fewer outputs than the donor's, which of the donor's it has
    SOLVED                           optional, False: where successors are solved, these have no map to solve, and keep the weights
                                     that `start`, or `choose`, gave them
    finish(successor, options)       optional, at collapse: a module of the class and shape that the family's config puts in the
                                     slot, which gives what the successor gives and takes its place; or None: the successor stays
    join(first, second)              optional, at collapse, for the successors of two neighbouring spans, neither of which stands
                                     elsewhere: changes the first to give what both give one after the other, and gives a successor
                                     of the part `identity` for the second's place; or None, and both stay as they are
    configure(config, block, options)
                                     optional: writes into a family's config what the successors have instead of `block`, and says
                                     whether it could; then the result is a plain checkpoint
    CANDIDATES                       optional, for a part of blocks: a list of options, as a recipe writes them, each of which a
                                     search for a plan tries in place of every span

`build` sees of the predecessor only what a span says, because a saved successor is built again where there is no predecessor:
its structure follows from the options and the module that the family's own config would put in the slot. What it builds is
moved to the model's device; it is run on torch's meta device too, where tensors have shapes and no values. Modules that several
spans share are the same object in the list, and stay shared through saving and loading.

`init` is any of `STARTS` or a checkpoint's folder or hub name; `donors` says for each slot whose weights it means.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from plankwise.config import validate_part
from plankwise.core.plan import Plan, Slot
from plankwise.errors import PlanError
from plankwise.kinds import list_kinds, load_kind, no_such
from plankwise.options import Options

if TYPE_CHECKING:
    import torch
    from torch import nn

    from plankwise.parts._units import Units


def _is_a(module: nn.Module, layer: str) -> bool:
    from torch import nn

    return isinstance(module, getattr(nn, layer))


def _is_map(module: nn.Module) -> bool:
    from plankwise.parts._units import is_map

    return is_map(module)


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a norm, of torch or of a family's own making."""
    return not list(module.children()) and "norm" in type(module).__name__.lower()


def heads_of(block: nn.Module) -> tuple[Units, ...]:
    """The heads of a block's attentions, in the order in which those were made: what maps feed them, and which reads them.

    Raises:
        PlanError: they are not found, with the reason as its message.
    """
    from plankwise.parts._units import find_units

    found = find_units(block)
    if not found.heads:
        raise PlanError(found.no_heads)
    return found.heads


def readable_heads(block: nn.Module) -> Units:
    """The heads of a block's first attention, to be read: those of an attention of the parts' own, too, which no one takes out.

    There `output` is the attention itself, which gives what its heads give side by side.

    Raises:
        PlanError: they are not found, with the reason as its message.
    """
    from plankwise.parts._blocks_modules import Attention
    from plankwise.parts._units import Feed, Units

    for path, one in block.named_modules():
        if isinstance(one, Attention):
            size = one.queries.out_features // one.heads
            feeds = tuple(Feed(f"{path}.{name}", size) for name in ("queries", "keys", "values"))
            return Units(path, one.heads, feeds, path, size)
    return heads_of(block)[0]


def removable_heads(block: nn.Module, config: Any) -> tuple[Units, ...]:
    """The same, where heads can be taken out of the block; `config`: the family's.

    Raises:
        PlanError: they cannot, with the reason as its message.
    """
    from plankwise.parts._units import SHARED_BIAS

    if hasattr(config, SHARED_BIAS):
        raise PlanError("each head's bias for relative positions is made outside of the block, for all blocks alike")
    return heads_of(block)


def channels_of(block: nn.Module) -> Units:
    """The feed-forward channels of a block, which `keep_heads` takes out as it does heads.

    Raises:
        PlanError: they are not found, with the reason as its message.
    """
    from plankwise.parts._units import find_units

    found = find_units(block)
    if found.ffn is None:
        raise PlanError(found.no_ffn)
    return found.ffn


def keep_heads(block: nn.Module, units: Units, kept: torch.Tensor) -> None:
    """Takes all heads but the kept ones, given by their numbers, out of a block: its matrices are smaller then."""
    from plankwise.parts._units import keep_units

    keep_units(block, units, kept)


REPLACEABLE: dict[str, Callable[[Slot, nn.Module], bool]] = {
    "any": lambda slot, module: True,
    "blocks": lambda slot, module: bool(slot.span),
    "linear": lambda slot, module: _is_a(module, "Linear"),
    "map": lambda slot, module: _is_map(module),  # nn.Linear, and the Conv1D that GPT-2 has instead
    "embedding": lambda slot, module: _is_a(module, "Embedding"),
    "module": lambda slot, module: not slot.span,  # a sublayer: attention, feed-forward, embeddings
}
STARTS = {
    "first": "block k for slot k (Xu et al. 2020)",
    "lower": "the lowest block of the span (the thesis)",
    "upper": "the highest block of the span (the thesis)",
    "spread": "blocks evenly spaced over the chain (DistilBERT)",
    "mean": "the mean of all blocks of the span",
    "random": "new weights, drawn as the family draws them",
}
COMPUTED = ("solved", "fitted")  # starts that are computed from texts, before which the blocks are copies
PLAIN = "layers"  # the part that builds what the family's config puts in a slot
NOTHING = "identity"  # the part that hands a state through
OWN = "own"  # the part of a slot whose successor is a module of the user's


class PartOptions(Options):
    """What a part can be told; one that takes nothing has no keys."""


@dataclass(frozen=True)
class Span:
    """What a successor is built for."""

    slot: Slot
    module: nn.Module  # what the family's config puts first in the slot: for shapes and classes, never for its weights
    config: Any  # the family's config; None for a model that has none
    index: int  # among the slots that share its part and options, from 0
    count: int  # of those


Load: TypeAlias = "Callable[[str], nn.Module]"
Runs: TypeAlias = "Callable[[], Iterator[torch.Tensor | None]]"
Importance: TypeAlias = "Callable[[dict[str, int]], dict[str, torch.Tensor]]"


def build_successors(model: nn.Module, plan: Plan, *, init: str, seed: int, load: Load) -> list[nn.Module]:
    """One successor a slot with the weights it starts from; the model is only read. `load(path)` gives a model like it.

    Raises:
        PlanError: a part does not fit its slot, or does not know `init`.
        ConfigError: a part has no such option.
    """
    modules = {slot: model.get_submodule(slot.places[0]) for slot in plan.slots}
    built: dict[Slot, nn.Module] = {}
    for part, slots in _by_part(plan):
        device = next(model.parameters()).device
        successors = [one.to(device) for one in build_part(part, slots, modules, getattr(model, "config", None))]
        if hasattr(part, "start"):
            part.start(model, slots, successors, init=init, seed=seed, load=load)
        built.update(zip(slots, successors, strict=True))
    return [built[slot] for slot in plan.slots]


def rebuild_successors(plan: Plan, modules: dict[Slot, nn.Module], config: Any) -> dict[Slot, nn.Module]:
    """The successors' structure alone, from the modules that the family's config puts in their slots after collapse."""
    built: dict[Slot, nn.Module] = {}
    for part, slots in _by_part(plan):
        built.update(zip(slots, build_part(part, slots, modules, config), strict=True))
    return built


def choose(
    slot: Slot, successor: nn.Module, donor: nn.Module, runs: Runs, importance: Importance
) -> dict[str, torch.Tensor]:
    """Lets a successor's part choose by texts what it keeps of a donor; gives what the part's `choose` gives, or nothing."""
    if slot.part == OWN or not hasattr(part := load_kind("parts", slot.part, key="plan.part"), "choose"):
        return {}
    return part.choose(successor, donor, runs, importance)


def candidates() -> list[tuple[str, dict[str, Any]]]:
    """What parts offer to a search for a plan, each with its options: see CANDIDATES."""
    found = {name: load_kind("parts", name, key="plan.part") for name in list_kinds("parts")}
    return [
        (name, options)
        for name, part in found.items()
        if part.REPLACES in ("any", "blocks")
        for options in getattr(part, "CANDIDATES", ())
    ]


def configure(plan: Plan, config: Any, model: nn.Module) -> bool:
    """Writes into the config of a shortened model what its blocks are by the plan; False if no one part can."""
    if any(slot.part == OWN for slot in plan.slots) or len(groups := _by_part(plan)) != 1:
        return False
    ((part, slots),) = groups
    block = model.get_submodule(plan.after_collapse(slots[0].places[0]))
    return hasattr(part, "configure") and part.configure(config, block, validate_part(slots[0].part, slots[0].options))


def is_solved(slot: Slot) -> bool:
    """Whether a slot's successor has maps to solve, as far as its part knows."""
    return slot.part == OWN or getattr(load_kind("parts", slot.part, key="plan.part"), "SOLVED", True)


def finish(model: nn.Module, plan: Plan) -> Plan:
    """Lets parts put modules of the family's own into a collapsed model in place of successors, and make one successor of two.

    Gives the plan of what then stands. Modules that are the same object stay so.
    """
    finished: dict[int, nn.Module | None] = {}
    slots: list[Slot] = []
    for slot in plan.slots:
        part: Any = None if slot.part == OWN else load_kind("parts", slot.part, key="plan.part")
        if not hasattr(part, "finish"):
            slots.append(slot)
            continue
        path = plan.after_collapse(slot.places[0])
        successor = model.get_submodule(path)
        if id(successor) not in finished:
            finished[id(successor)] = part.finish(successor, validate_part(slot.part, slot.options))
        module = finished[id(successor)]
        if module is not None:
            model.set_submodule(path, module)
            slot = replace(slot, part=PLAIN, options={})
        slots.append(slot)
    return _join(model, Plan(tuple(slots)))


def _join(model: nn.Module, plan: Plan) -> Plan:
    """Lets parts make one successor of two neighbours of a collapsed model, from the last pair to the first."""
    slots = list(plan.slots)
    paths = [plan.after_collapse(slot.places[0]) for slot in slots]
    standing = [id(one) for _, one in model.named_modules(remove_duplicate=False)]
    for place in reversed(range(len(slots) - 1)):
        first, second = slots[place : place + 2]
        neighbours = first.path == second.path and first.span and first.span[-1] + 1 == second.span[0]
        if not neighbours or first.part != second.part or first.part == OWN:
            continue
        part, modules = (
            load_kind("parts", first.part, key="plan.part"),
            [model.get_submodule(paths[place + i]) for i in (0, 1)],
        )
        if not hasattr(part, "join") or any(standing.count(id(one)) > 1 for one in modules):
            continue
        if (module := part.join(*modules)) is not None:
            model.set_submodule(paths[place + 1], module)
            slots[place + 1] = replace(second, part=NOTHING, options={})
    return Plan(tuple(slots))


def build_part(part: Any, slots: list[Slot], modules: dict[Slot, nn.Module], config: Any) -> list[nn.Module]:
    """What one part builds for slots with the same options."""
    for slot in slots:
        if not REPLACEABLE[part.REPLACES](slot, modules[slot]):
            raise PlanError(
                f"plan.part is {slot.part!r}, which replaces {part.REPLACES}, but slot {slot} holds a "
                f"{type(modules[slot]).__name__}; name other slots, or another part"
            )
    spans = [Span(slot, modules[slot], config, index, len(slots)) for index, slot in enumerate(slots)]
    return part.build(spans, validate_part(slots[0].part, slots[0].options))


def _by_part(plan: Plan) -> list[tuple[Any, list[Slot]]]:
    """Each part with the slots that it is to build with the same options, in their order."""
    groups: dict[tuple[str, str], list[Slot]] = {}
    for slot in plan.slots:
        groups.setdefault((slot.part, json.dumps(slot.options, sort_keys=True)), []).append(slot)
    return [(load_kind("parts", part, key="plan.part"), slots) for (part, _), slots in groups.items()]


def donors(model: nn.Module, slots: list[Slot], init: str, load: Load) -> Iterator[list[nn.Module]]:
    """For each slot, the modules whose weights its successor starts from.

    `STARTS` says which blocks each start means; for `random` what stands first in the slot is given all the same. Any other
    `init` is a checkpoint, and its block is given. In a slot without a span, each of them is the module that stands there.

    Raises:
        PlanError: `init` is neither a start nor a checkpoint that fits.
    """
    chains: dict[str, list[Slot]] = {}
    for slot in slots:
        chains.setdefault(slot.path, []).append(slot)
    other = None if init in STARTS else _load_checkpoint(init, load)
    for slot in slots:
        if not slot.span:
            yield [(other or model).get_submodule(slot.path)]
            continue
        index = chains[slot.path].index(slot)
        blocks = list(model.get_submodule(slot.path))  # type: ignore[call-overload]
        if other is not None:
            yield [_checkpoint_block(other, slot, index, len(chains[slot.path]), len(blocks), init)]
        elif init == "mean":
            yield [blocks[i] for i in slot.span]
        else:
            last = max(1, len(chains[slot.path]) - 1)
            chosen = {
                "first": index,
                "lower": slot.span[0],
                "upper": slot.span[-1],
                "spread": round(index * (len(blocks) - 1) / last),
                "random": slot.span[0],
            }
            yield [blocks[chosen[init]]]


def _load_checkpoint(init: str, load: Load) -> nn.Module:
    try:
        return load(init)
    except Exception as error:
        known = no_such(init, [*STARTS, *COMPUTED], "initialisation")
        reason = f" ({error})" if Path(init).expanduser().is_dir() else ""
        raise PlanError(
            f"plan.init is {init!r}; {known}, or the folder or hub name of a checkpoint, and none could be loaded from there"
            f"{reason}"
        ) from error


def _checkpoint_block(other: nn.Module, slot: Slot, index: int, count: int, length: int, init: str) -> nn.Module:
    blocks = list(other.get_submodule(slot.path))  # type: ignore[call-overload]
    if len(blocks) not in (count, length):
        raise PlanError(
            f"plan.init is {init!r}, whose {slot.path} has {len(blocks)} blocks; it needs {count}, one for each "
            f"successor, or {length}, as many as the predecessor"
        )
    return blocks[index if len(blocks) == count else slot.span[0]]
