"""The models of a frontier: the predecessor, successors of several depths, and what a user would pick instead.

Each has a folder of its own, in which it is made once; a model whose folder is there is taken as it is.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from transformers import AutoModel, set_seed

from plankwise.config import RunConfig, validate_config
from plankwise.errors import ConfigError, RunError
from plankwise.families import chains_of
from plankwise.files import read_as, write_text
from plankwise.frontier import text_models
from plankwise.kinds import load_kind
from plankwise.run.finetune import finetune
from plankwise.run.sharing import ReadyPredecessor, train_successor
from plankwise.task_kinds import PlainTexts
from plankwise.toml import without_none
from plankwise.training.job import Outcome
from plankwise.training.targets import KeptTargets

MODEL, MADE = "model", "made.json"  # in a model's folder: its weights, and what making it took
PREDECESSOR, SUCCESSOR, INSTEAD = "predecessor", "successor", "instead"  # kinds of model
EXITS = "exits"  # the method, and the end of its models' names
THIN = "thin"  # the part
# The end of its models' names; a third and a sixth of a block's multiply-adds.
WIDTHS = {"thin": {"ffn": 0.25, "heads": 0.5}, "thinner": {"ffn": 0.125, "heads": 0.25}}
FEWEST_BLOCKS = 3  # of fewer no text can leave any early
SHARES = (2, 3, 4, 6)  # of the predecessor's blocks one in so many is left, where nothing is said


@dataclass(frozen=True)
class Entry:
    """A model that the frontier is to have."""

    name: str
    kind: str
    make: Callable[[Path], Any]  # fills an empty folder with `model`
    open_text: Callable[[Path], text_models.TextPredictor] | None = None  # of a classifier that is not a transformer


@dataclass(frozen=True)
class Made:
    """A model that is there."""

    entry: Entry
    path: Path
    seconds: float | None  # that making it took; None of a model that was given


def find_depths(predecessor: ReadyPredecessor, asked: Sequence[int] | None) -> list[int]:
    """The numbers of blocks that successors have, the largest first.

    Raises:
        ConfigError: there are as many blocks already, or fewer.
    """
    least = min(_lengths(predecessor))
    if asked is None:
        return sorted({max(1, least // share) for share in SHARES} - {least}, reverse=True)
    for depth in asked:
        if not 1 <= depth < least:
            raise ConfigError(f"--depths has {depth}, but the predecessor has {least} blocks; give 1 to {least - 1}")
    return sorted(set(asked), reverse=True)


def list_entries(
    predecessor: ReadyPredecessor,
    base: RunConfig,
    depths: list[int],
    encoders: Sequence[str],
    *,
    tfidf: bool,
    static: bool,
    static_from: str | None,
    truncated: bool,
    thin: bool,
    exits: bool,
) -> list[Entry]:
    """All models but the predecessor, in the order in which they are made: what a user has most use for comes first."""

    def successor(depth: int, name: str = "", **more: Any) -> Entry:
        config = _changed(base, plan={"successors": depth, "cut": "late", "spans": None, "slots": None, **more})
        return Entry(_layers(depth) + name, SUCCESSOR, lambda folder: _train(predecessor, config, folder))

    instead: list[Entry] = []
    if tfidf:
        instead.append(Entry("tfidf", INSTEAD, partial(_fit_tfidf, predecessor), text_models.TfidfPredictor))
    if static:
        fit = partial(_fit_static, predecessor, static_from)
        instead.append(Entry("static", INSTEAD, fit, text_models.StaticPredictor))
    if truncated:
        # Copies want even spans: see EXPERIMENTS.md, "Late spans".
        uneven = any(length % depths[0] for length in _lengths(predecessor))
        config = distilled(base, depths[0], cut="late" if uneven else "even")
        name = f"{_layers(depths[0])}-truncated-kd"
        instead.append(Entry(name, INSTEAD, lambda folder: _train(predecessor, config, folder)))
    found = [successor(depth) for depth in depths]
    found[1:1] = instead
    if thin and base.plan.part != THIN:
        # Width is the other way to the same speed: all blocks, thin, are as much work as a third of them.
        whole = min(_lengths(predecessor))
        found += [
            successor(depth, f"-{name}", part=THIN, options=WIDTHS[name])
            for depth, name in ((whole, "thin"), (whole, "thinner"), (depths[0], "thin"))
        ]
    if exits:
        found += _leaving(predecessor, base, depths)
    return [*found, *(_tuned(predecessor, base, path) for path in encoders)]


def _leaving(predecessor: ReadyPredecessor, base: RunConfig, depths: list[int]) -> list[Entry]:
    """Early exits, on all blocks of the predecessor and on those of the deepest successor: one more training each."""
    lengths = _lengths(predecessor)
    if len(lengths) > 1:  # a text leaves one chain of blocks
        return []
    found = [] if base.method.name == EXITS else [depth for depth in depths[:1] if depth >= FEWEST_BLOCKS]
    found += [length for length in lengths if length >= FEWEST_BLOCKS]

    def entry(depth: int) -> Entry:
        def train(folder: Path) -> None:
            source = predecessor if depth in lengths else _made_before(predecessor, folder.parent / _layers(depth))
            patience = _train(source, with_exits(base, depth), folder).notes["patience"]
            predecessor.run.context.console.print(
                f"patience {patience['patience']}, chosen by {patience['examples']:,} training examples that were kept out",
                soft_wrap=True,
            )

        return Entry(f"{_layers(depth)}-{EXITS}", SUCCESSOR, train)

    return [entry(depth) for depth in reversed(found)]


def distilled(base: RunConfig, depth: int, cut: str = "even") -> RunConfig:
    """The recipe with the method `kd` on copied layers."""
    plan = {"successors": depth, "cut": cut, "spans": None, "slots": None, "init": "lower"}
    return _changed(base, plan=plan, method={"name": "kd"})


def with_exits(base: RunConfig, depth: int) -> RunConfig:
    """The recipe with the method `exits` and its learning rate, for a model whose blocks all stay as they are."""
    plan = {
        "successors": depth,
        "cut": "late",
        "spans": None,
        "slots": None,
        "part": "layers",
        "options": {},
        "init": "lower",
    }
    if base.method.name == EXITS:
        return _changed(base, plan=plan)
    training = load_kind("methods", EXITS, key="method.name").defaults({})["training"]
    return _changed(base, plan=plan, method={"name": EXITS}, training=training)


def _made_before(predecessor: ReadyPredecessor, folder: Path) -> ReadyPredecessor:
    """A model of this frontier, as what is compressed.

    Raises:
        RunError: it has not been made.
    """
    if not (folder / MADE).is_file():
        raise RunError(f"{folder.name}, which is to get early exits, has not been made; see what was said of it above")
    run = replace(predecessor.run, kept_targets=KeptTargets())  # those kept so far are of another model
    return replace(predecessor, path=str(folder / MODEL), run=run)


@dataclass(frozen=True)
class _Note:
    """What is kept of how a model was made."""

    name: str
    seconds: float


def make(entry: Entry, folder: Path) -> Made:
    """The model in its folder, made there if need be."""
    file = folder / MADE
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        set_seed(0)  # whatever ran before in this process
        started = time.monotonic()
        entry.make(folder)
        write_text(file, json.dumps(asdict(_Note(entry.name, time.monotonic() - started))))
    return Made(entry, folder / MODEL, read_as(file, _Note).seconds)


def _lengths(predecessor: ReadyPredecessor) -> list[int]:
    """The blocks of each chain."""
    return [chain.length for chain in chains_of(predecessor.load(), predecessor.run.config.plan.chains)]


def _layers(depth: int) -> str:
    return f"{depth}-layer{'s' if depth > 1 else ''}"


def _changed(base: RunConfig, **sections: dict[str, Any]) -> RunConfig:
    """The recipe with other keys; another method leaves the recipe's own keys behind."""
    data = base.model_dump(mode="json")
    for name, values in sections.items():
        data[name] = values if name == "method" else {**data[name], **values}
    return validate_config(without_none(data))


def _train(predecessor: ReadyPredecessor, config: RunConfig, folder: Path) -> Outcome:
    run = config.run.model_copy(update={"folder": str(folder)})
    config = config.model_copy(update={"run": run})
    outcome = train_successor(config, predecessor)
    predecessor.at(config).save(outcome.successor, MODEL)
    return outcome


def _tuned(predecessor: ReadyPredecessor, base: RunConfig, path: str) -> Entry:
    """Another encoder, fine-tuned on the same task as the predecessor was."""
    name = re.sub(r"[^\w.+-]+", "-", Path(path).name).strip("-.") or "encoder"

    def tune(folder: Path) -> None:
        place = folder / "run"
        config = _changed(base, predecessor={"path": path}, run={"folder": str(place)}, evaluation={"latency": False})
        finetune(config, predecessor.run.context.console)
        (place / MODEL).replace(folder / MODEL)

    return Entry(name, INSTEAD, tune)


def _plain_texts(predecessor: ReadyPredecessor) -> PlainTexts:
    found = predecessor.run.task.plain_texts()
    assert found is not None  # else no such model is listed
    return found


def _fit_tfidf(predecessor: ReadyPredecessor, folder: Path) -> None:
    text_models.fit_tfidf(_plain_texts(predecessor), folder / MODEL)


def _fit_static(predecessor: ReadyPredecessor, source: str | None, folder: Path) -> None:
    model, tokenizer = predecessor.load(), predecessor.run.tokenizer
    if source is not None:
        loader = predecessor.run.loader
        model, tokenizer = loader.model(source, AutoModel, new_head=True).model.eval(), loader.tokenizer(source)
    text_models.fit_static(model, tokenizer, _plain_texts(predecessor), folder / MODEL)
