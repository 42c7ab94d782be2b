"""Splits a dev set off train, draws subsets for quick runs, and makes a task's tables ready for a run.

Rows are chosen by number, and texts are copied once, at the end: tables may be larger than memory.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from sklearn.model_selection import train_test_split

from plankwise.data.clean import Dropped, clean, find_shared
from plankwise.data.mapped import pick
from plankwise.data.source import Source, TaskOptions
from plankwise.errors import DataError

KEPT_OUT_SHARE, MOST_KEPT_OUT = 0.1, 2000


@dataclass(frozen=True)
class Prepared:
    """What a run trains and measures on."""

    train: pa.Table
    dev: dict[str, pa.Table]
    dropped: dict[str, Dropped]  # by table: train and each given dev set; empty if nothing was cleaned or dropped
    overlap: int = 0  # rows of train whose text or pair is in a dev set too, dropped or kept


def split(labels: np.ndarray, share: float, *, stratified: bool, seed: int, names: tuple[str, ...] = ()) -> np.ndarray:
    """Which rows are dev (N,): `share` of them, by class if stratified; the others are train. `names` are the classes'.

    Raises:
        DataError: too few rows, in all or of one class.
    """
    num_rows = len(labels)
    if num_rows < 2:
        raise DataError(f"train has {num_rows} row, too few to split dev off; add examples, or give a dev set")
    if stratified:
        _check_classes(labels, share, names)
    _, dev = train_test_split(
        np.arange(num_rows),
        test_size=min(max(1, round(num_rows * share)), num_rows - 1),
        random_state=seed % 2**32,
        stratify=labels if stratified else None,
    )
    in_dev = np.zeros(num_rows, dtype=bool)
    in_dev[dev] = True
    return in_dev


def _check_classes(labels: np.ndarray, share: float, names: tuple[str, ...]) -> None:
    """scikit-learn refuses the same, without the classes' names or what to do."""
    found, counts = np.unique(labels, return_counts=True)
    if counts.min() < 2:
        rare = int(found[counts.argmin()])
        name = repr(names[rare]) if rare < len(names) else str(rare)
        raise DataError(
            f"class {name} has 1 row in train, too few to be split between train and dev; "
            "add examples of it, take it out, or give a dev set"
        )
    num_dev = round(len(labels) * share)
    if min(num_dev, len(labels) - num_dev) < len(found):
        raise DataError(
            f"task.dev_share is {share}, which leaves {len(labels) - num_dev} rows for train and {num_dev} for dev, "
            f"one of them fewer than the {len(found)} classes; change it, add examples, or give a dev set"
        )


def limit(labels: np.ndarray, n: int, *, stratified: bool, seed: int) -> np.ndarray:
    """Which rows are drawn by the seed (N,), `n` at most; a smaller `n` draws a subset of what a larger one draws.

    If stratified, classes keep their shares, and each keeps at least one row if `n` allows. What scikit-learn draws for a
    smaller number is not a subset of what it draws for a larger one.
    """
    num_rows = len(labels)
    chosen = np.full(num_rows, num_rows <= n)
    if num_rows <= n:
        return chosen
    shuffled = np.random.default_rng(seed).permutation(num_rows)
    if stratified:
        shuffled = shuffled[np.argsort(_turns(labels[shuffled]), kind="stable")]
    chosen[shuffled[:n]] = True
    return chosen


def _turns(classes: np.ndarray) -> np.ndarray:
    """When each row is drawn, so that any beginning has the shares of the whole; one of each class goes first."""
    by_class = np.argsort(classes, kind="stable")
    _, starts, sizes = np.unique(classes[by_class], return_index=True, return_counts=True)
    rank = np.arange(len(classes)) - np.repeat(starts, sizes)
    turns = np.empty(len(classes))
    turns[by_class] = np.where(rank == 0, -1.0, (rank + 0.5) / np.repeat(sizes, sizes))
    return turns


class _Chosen:
    """Some rows of a table, by a mask; their texts stay where they are until `pick`."""

    def __init__(self, table: pa.Table, mask: np.ndarray | None = None) -> None:
        self.table = table
        self.mask = np.ones(table.num_rows, dtype=bool) if mask is None else mask
        self.labels: np.ndarray = table["label"].to_numpy()[self.mask]

    def among(self, mask: np.ndarray) -> "_Chosen":
        """Those of the chosen rows that `mask` is true for."""
        narrowed = self.mask.copy()
        narrowed[self.mask] = mask
        return _Chosen(self.table, narrowed)

    def pick(self) -> pa.Table:
        return pick(self.table, self.mask)


def prepare(source: Source, options: TaskOptions, *, seed: int) -> Prepared:
    """Cleans, splits dev off if there is none, and limits, as the options say.

    Raises:
        DataError: nothing is left, or one class only.
        RunError: the tables are large, and the cache cannot be written.
    """
    stratified = source.kind == "classes"
    chosen, dropped = {}, {}
    for name, table in {"train": source.train, **source.dev}.items():
        kept = None
        if options.clean:
            kept, dropped[name] = clean(table)
        chosen[name] = _Chosen(table, kept)
    for name, rows in chosen.items():
        if len(rows.labels) == 0:
            why = f"; cleaning dropped {_reasons(dropped[name])}" if name in dropped else ""
            raise DataError(f"{name} has no rows{why}: give more examples{', or task.clean = false' if why else ''}")
    train = chosen.pop("train")
    if stratified:
        why = f" (cleaning dropped {_reasons(dropped['train'])})" if dropped else ""
        _check_two_classes(train.labels, source.labels, f"{why}; add examples of another class, or check the labels")
    if not chosen:
        in_dev = split(train.labels, options.dev_share, stratified=stratified, seed=seed, names=source.labels)
        chosen["dev"], train = train.among(in_dev), train.among(~in_dev)
    overlap = 0
    if source.dev or not options.clean:  # no text is left twice in a table that was cleaned, then split
        shared = find_shared(train.table, train.mask, [(rows.table, rows.mask) for rows in chosen.values()])
        overlap = int(shared.sum())
    if overlap and options.overlap == "drop":
        dropped["train"] = replace(dropped.get("train", Dropped(0, 0, 0)), overlap=overlap)
        train = train.among(~shared[train.mask])
        _check_left(train.labels, source, dropped["train"])
    if options.train_limit is not None:
        train = train.among(limit(train.labels, options.train_limit, stratified=stratified, seed=seed))
    if options.dev_limit is not None:
        chosen = {
            name: rows.among(limit(rows.labels, options.dev_limit, stratified=stratified, seed=seed))
            for name, rows in chosen.items()
        }
    if stratified:
        given = f"task.train_limit = {options.train_limit} and task.dev_share = {options.dev_share}"
        _check_two_classes(train.labels, source.labels, f" under {given}; use more of the examples")
    return Prepared(train.pick(), {name: rows.pick() for name, rows in chosen.items()}, dropped, overlap)


def kept_out_share(count: int) -> float:
    """Of so many training examples, those that are kept out to choose by."""
    return min(KEPT_OUT_SHARE, MOST_KEPT_OUT / max(1, count))


def keep_out(prepared: Prepared, source: Source, seed: int) -> tuple[Prepared, pa.Table]:
    """The same with fewer training examples, and those that were taken out of them: a tenth, MOST_KEPT_OUT at most.

    Raises:
        DataError: there are too few.
    """
    labels = prepared.train["label"].to_numpy()
    taken = split(
        labels, kept_out_share(len(labels)), stratified=source.kind == "classes", seed=seed + 1, names=source.labels
    )
    return replace(prepared, train=pick(prepared.train, ~taken)), pick(prepared.train, taken)


def _reasons(dropped: Dropped) -> str:
    return f"{dropped.empty} empty, {dropped.contradicting} contradicting and {dropped.duplicates} repeated rows"


def _check_left(labels: np.ndarray, source: Source, dropped: Dropped) -> None:
    """Whether train without what is in dev too can still be trained on."""
    what = f"{dropped.overlap} rows whose text is in dev too were dropped"
    ways = "give a dev set of other texts, or set task.overlap = 'keep'"
    if len(labels) == 0:
        raise DataError(f"train has no rows left: {what}; {ways}")
    if source.kind == "classes":
        _check_two_classes(labels, source.labels, f" ({what}); {ways}")


def _check_two_classes(labels: np.ndarray, names: tuple[str, ...], rest: str) -> None:
    found = np.unique(labels)
    if len(found) < 2:
        raise DataError(f"train is left with one class, {names[found[0]]!r}, but at least two are needed{rest}")
