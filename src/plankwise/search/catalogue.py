"""The catalogue: what each part costs in place of a middle block of a model: parameters, multiply-adds and measured time.

A part of blocks stands in the block's place. A part of what is inside a block stands wherever it fits there, and the row is of
the block with it. A part of embeddings is measured against the table of tokens. All are timed in turn on the states that the
model gives the block for random tokens; no text and no label is needed.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from plankwise.config import validate_part
from plankwise.core.plan import Plan, Slot
from plankwise.errors import ConfigError, PlanError
from plankwise.evaluation.size import count_parameters
from plankwise.evaluation.speedup import SAME, Speedup
from plankwise.families import chains_of
from plankwise.kinds import list_kinds, load_kind
from plankwise.models.limits import token_limit
from plankwise.models.loading import load
from plankwise.models.plans import build_successors, check_model
from plankwise.search.costs import time_alone, watch
from plankwise.search.library import label_of
from plankwise.solving.bench import Given

BLOCK, TABLE = "block", "embeddings"  # what parts are measured against
PREDICTIONS = 50  # rounds at least; see `measure_latency`


@dataclass(frozen=True)
class Entry:
    """A part with its options, and what it costs; or why it does not fit. Ratios are to what it replaces."""

    part: str
    options: dict[str, Any]
    replaces: str
    unfit: str = ""
    parameters: int | None = None
    parameters_ratio: float | None = None
    multiply_adds: int | None = None
    multiply_adds_ratio: float | None = None  # None where what it replaces has none
    latency_ms: float | None = None
    latency_ratio: dict[str, Any] | None = None  # median, interval, and whether that is narrow

    @property
    def label(self) -> str:
        return label_of(self.part, self.options)


@dataclass(frozen=True)
class Catalogue:
    """The entries; first what the others are measured against."""

    model: str
    block: str  # its path
    length: int
    batch: int
    entries: list[Entry]
    conditions: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def make_catalogue(
    path: str,
    *,
    length: int,
    batch: int,
    predictions: int = PREDICTIONS,
    progress: Callable[[int, int], None] = lambda done, expected: None,
) -> Catalogue:
    """Measures every part in a model of text: a folder, a hub name or `embedded`.

    Raises:
        ConfigError: nothing can be loaded from there, or the model does not read tokens, or not so many.
        PlanError: it has no chain of blocks, or cannot be compressed.
    """
    model: Any = load(path)
    check_model(model)
    inputs = _draw_inputs(model, length, batch)
    chain = max(chains_of(model), key=lambda one: one.length)
    place = Slot(chain.path, (chain.length // 2,))
    places = {BLOCK: place.places[0], TABLE: _path_of(model, model.get_input_embeddings())}
    given = _watch(model, places, inputs)
    modules: dict[str, nn.Module] = {what: model.get_submodule(path) for what, path in places.items()}
    found: list[Entry] = [Entry(what, {}, what) for what in modules]
    for part, options in every_part():
        kind = load_kind("parts", part, key="plan.part")
        replaces = TABLE if kind.REPLACES == "embedding" else BLOCK
        entry = Entry(part, options, replaces)
        try:
            modules[entry.label] = _build(model, kind, part, options, place)
        except PlanError as error:
            entry = Entry(part, options, replaces, unfit=_shorten(str(error)))
        found.append(entry)
    fitting = {entry.label: entry for entry in found if not entry.unfit}
    speed = time_alone(
        {label: (modules[label].eval(), given[entry.replaces]) for label, entry in fitting.items()},
        {label: entry.replaces for label, entry in fitting.items() if label not in places},
        predictions=predictions,
        progress=progress,
    )
    counts = {label: count_parameters(module) for label, module in modules.items()}

    def fill(entry: Entry) -> Entry:
        if entry.unfit:
            return entry
        label, other, adds = entry.label, entry.replaces, speed.multiply_adds
        ((_, latency),) = speed.latency[label].items()
        (faster,) = speed.speedups[label].values() if label in speed.speedups else [SAME]
        return Entry(
            entry.part,
            entry.options,
            entry.replaces,
            parameters=counts[label],
            parameters_ratio=counts[label] / counts[other],
            multiply_adds=adds.get(label),
            multiply_adds_ratio=adds[label] / adds[other] if label in adds and adds.get(other) else None,
            latency_ms=latency["p50_ms"],
            latency_ratio=_turned(faster).to_json(),
        )

    return Catalogue(path, str(place), length, batch, [fill(entry) for entry in found], speed.conditions)


def every_part() -> list[tuple[str, dict[str, Any]]]:
    """Every part with each of its candidates' options, or with its defaults where it offers none."""
    return [
        (name, options)
        for name in list_kinds("parts")
        for options in getattr(load_kind("parts", name, key="plan.part"), "CANDIDATES", None) or [{}]
    ]


def _draw_inputs(model: Any, length: int, batch: int) -> dict[str, torch.Tensor]:
    table = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    if getattr(model, "main_input_name", "") != "input_ids" or not isinstance(table, nn.Embedding):
        raise ConfigError(
            f"a {type(model).__name__} does not read tokens, and parts are listed for models of text; give such a model"
        )
    longest = token_limit(model)
    if longest is not None and length > longest:
        raise ConfigError(f"--length is {length}, but the model takes {longest} tokens; give {longest} or less")
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(table.num_embeddings, (batch, length), generator=generator).to(table.weight.device)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return inputs | ({"decoder_input_ids": ids} if model.config.is_encoder_decoder else {})


def _watch(model: Any, places: dict[str, str], inputs: dict[str, torch.Tensor]) -> dict[str, Given]:
    """What the modules at some places are given; the head, which may ask for more than tokens, is not run."""
    base, prefix = model.base_model, f"{_path_of(model, model.base_model)}."
    inside = {what: path if base is model else path.removeprefix(prefix) for what, path in places.items()}
    given, _ = watch(base, list(inside.values()), inputs)
    return {what: given[path] for what, path in inside.items()}


def _path_of(model: nn.Module, module: nn.Module) -> str:
    return next(path for path, one in model.named_modules() if one is module)


def find_slots(model: Any, part: str, options: dict[str, Any], place: Slot) -> list[Slot]:
    """Where a part stands that is to replace the blocks of `place`: there, or, of what is inside one block, wherever it fits.

    A part of embeddings stands in place of the table of tokens.

    Raises:
        PlanError: a part of what is inside a block fits nothing there.
    """
    replaces = load_kind("parts", part, key="plan.part").REPLACES
    if replaces == "embedding":
        return [Slot(_path_of(model, model.get_input_embeddings()), (), part, options)]
    if replaces in ("any", "blocks"):
        return [Slot(place.path, place.span, part, options)]
    (above,) = place.places
    block = model.get_submodule(above)
    found: list[Slot] = []
    for path, _ in list(block.named_modules())[1:]:
        slot = Slot(f"{above}.{path}", (), part, options)
        if not slot.path.startswith(tuple(f"{one.path}." for one in found)) and _fits(model, slot):
            found.append(slot)
    if not found:
        raise PlanError(f"it fits no module inside a {type(block).__name__}")
    return found


def _fits(model: nn.Module, slot: Slot) -> bool:
    try:
        build_successors(model, Plan((slot,)), init="random", seed=0)
    except PlanError:
        return False
    return True


def _build(model: Any, kind: Any, part: str, options: dict[str, Any], place: Slot) -> nn.Module:
    """What stands in the place of the block, or of the table, once the part does, as it is after collapse.

    Raises:
        PlanError: the part does not fit.
    """
    slots = find_slots(model, part, options, place)
    modules = build_successors(model, Plan(tuple(slots)), init="random", seed=0)
    if hasattr(kind, "finish"):
        modules = [kind.finish(one, validate_part(part, options)) or one for one in modules]
    if kind.REPLACES in ("any", "blocks", "embedding"):
        return modules[0]
    block = copy.deepcopy(model.get_submodule(place.places[0]))
    for slot, module in zip(slots, modules, strict=True):
        block.set_submodule(slot.path.removeprefix(f"{place.places[0]}."), module)
    return block


def _shorten(message: str) -> str:
    """What is wrong, of a message that also says where and what to do."""
    return re.sub(r"^.*? holds an? \w+, (which |whose )?", "", message.partition(";")[0])


def _turned(faster: Speedup) -> Speedup:
    """Time as a ratio, of how many times faster."""
    return Speedup(1 / faster.median, 1 / faster.high, 1 / faster.low, faster.steady)
