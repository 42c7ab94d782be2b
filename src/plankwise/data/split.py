"""Splits a dev set off train, draws subsets for quick runs, and makes a task's tables ready for a run."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from sklearn.model_selection import train_test_split

from plankwise.data.clean import Dropped, clean
from plankwise.errors import DataError
from plankwise.tasks._source import Source, TaskOptions


@dataclass(frozen=True)
class Prepared:
    """What a run trains and measures on."""

    train: pa.Table
    dev: dict[str, pa.Table]
    dropped: dict[str, Dropped]  # by table: train and each given dev set; empty if nothing was cleaned


def split(
    table: pa.Table, share: float, *, stratified: bool, seed: int, labels: tuple[str, ...] = ()
) -> tuple[pa.Table, pa.Table]:
    """Train and dev: each row in exactly one, order kept, dev with `share` of the rows, by class if stratified.

    `labels` are the classes' names, for errors.

    Raises:
        DataError: too few rows, in all or of one class.
    """
    num_rows = table.num_rows
    if num_rows < 2:
        raise DataError(f"train has {num_rows} row, too few to split dev off; add examples, or give a dev set")
    classes = _check_classes(table, share, labels) if stratified else None
    num_dev = min(max(1, round(num_rows * share)), num_rows - 1)
    _, dev_rows = train_test_split(np.arange(num_rows), test_size=num_dev, random_state=seed % 2**32, stratify=classes)
    in_dev = np.zeros(num_rows, dtype=bool)
    in_dev[dev_rows] = True
    return table.filter(pa.array(~in_dev)), table.filter(pa.array(in_dev))


def _check_classes(table: pa.Table, share: float, labels: tuple[str, ...]) -> np.ndarray:
    classes: np.ndarray = table["label"].to_numpy()
    found, counts = np.unique(classes, return_counts=True)
    if counts.min() < 2:
        rare = int(found[counts.argmin()])
        name = repr(labels[rare]) if rare < len(labels) else str(rare)
        raise DataError(
            f"class {name} has 1 row in train, too few to be split between train and dev; "
            "add examples of it, take it out, or give a dev set"
        )
    num_dev = round(table.num_rows * share)
    if min(num_dev, table.num_rows - num_dev) < len(found):
        raise DataError(
            f"task.dev_share is {share}, which leaves {table.num_rows - num_dev} rows for train and {num_dev} for dev, "
            f"one of them fewer than the {len(found)} classes; change it, add examples, or give a dev set"
        )
    return classes


def limit(table: pa.Table, n: int, *, stratified: bool, seed: int) -> pa.Table:
    """At most `n` rows, drawn by the seed, order kept; a smaller `n` draws a subset of what a larger one draws.

    If stratified, classes keep their shares, and each keeps at least one row if `n` allows.
    """
    num_rows = table.num_rows
    if num_rows <= n:
        return table
    shuffled = np.random.default_rng(seed).permutation(num_rows)
    chosen = np.zeros(num_rows, dtype=bool)
    if stratified:
        shuffled = shuffled[np.argsort(_turns(table["label"].to_numpy()[shuffled]), kind="stable")]
    chosen[shuffled[:n]] = True
    return table.filter(pa.array(chosen))


def _turns(classes: np.ndarray) -> np.ndarray:
    """When each row is drawn, so that any beginning has the shares of the whole; one of each class goes first."""
    by_class = np.argsort(classes, kind="stable")
    _, starts, sizes = np.unique(classes[by_class], return_index=True, return_counts=True)
    rank = np.arange(len(classes)) - np.repeat(starts, sizes)
    turns = np.empty(len(classes))
    turns[by_class] = np.where(rank == 0, -1.0, (rank + 0.5) / np.repeat(sizes, sizes))
    return turns


def prepare(source: Source, options: TaskOptions, *, seed: int) -> Prepared:
    """Cleans, splits dev off if there is none, and limits, as the options say.

    Raises:
        DataError: nothing is left, or one class only.
    """
    stratified = source.kind == "classes"
    train, dev, dropped = source.train, dict(source.dev), {}
    if options.clean:
        train, dropped["train"] = clean(train)
        for name, table in dev.items():
            dev[name], dropped[name] = clean(table)
    for name, table in {"train": train, **dev}.items():
        if table.num_rows == 0:
            why = f"; cleaning dropped {_reasons(dropped[name])}" if name in dropped else ""
            raise DataError(f"{name} has no rows{why}: give more examples{', or task.clean = false' if why else ''}")
    if stratified:
        why = f" (cleaning dropped {_reasons(dropped['train'])})" if dropped else ""
        _check_two_classes(train, source.labels, f"{why}; add examples of another class, or check the labels")
    if not dev:
        train, dev["dev"] = split(train, options.dev_share, stratified=stratified, seed=seed, labels=source.labels)
    if options.train_limit is not None:
        train = limit(train, options.train_limit, stratified=stratified, seed=seed)
    if options.dev_limit is not None:
        dev = {name: limit(table, options.dev_limit, stratified=stratified, seed=seed) for name, table in dev.items()}
    if stratified:
        given = f"task.train_limit = {options.train_limit} and task.dev_share = {options.dev_share}"
        _check_two_classes(train, source.labels, f" under {given}; use more of the examples")
    return Prepared(train, dev, dropped)


def _reasons(dropped: Dropped) -> str:
    return f"{dropped.empty} empty, {dropped.contradicting} contradicting and {dropped.duplicates} repeated rows"


def _check_two_classes(table: pa.Table, labels: tuple[str, ...], rest: str) -> None:
    found = table["label"].unique().to_pylist()
    if len(found) < 2:
        raise DataError(f"train is left with one class, {labels[found[0]]!r}, but at least two are needed{rest}")
