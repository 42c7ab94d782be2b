"""The examples of a ranking task: read, cleaned, split by queries and limited."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from plankwise.data.clean import Dropped
from plankwise.data.mapped import pick
from plankwise.data.pieces import Layout
from plankwise.data.quotes import Tally
from plankwise.data.ranking import (
    Candidates,
    Left,
    gains_of,
    gather,
    gather_from,
    read_pairs,
    read_triples,
    split_queries,
    with_queries,
)
from plankwise.data.retrieval import read_candidates, read_retrieval
from plankwise.data.split import kept_out_share
from plankwise.errors import ConfigError, DataError

DEV = "dev"


@dataclass(frozen=True)
class Examples:
    """What a ranking task trains on and is scored by."""

    train: pa.Table  # text: the query; text_pair, label
    together: int  # neighbouring rows that belong to each other: 2 for triples
    dev: Candidates
    left: Left  # dev queries that were left out
    dropped: dict[str, Dropped]
    notes: tuple[str, ...]


def layout_of(options: Any) -> Layout:
    return Layout(options.separator, options.header, options.encoding, options.quoting)


def read_examples(options: Any, seed: int, console: Console) -> Examples:
    """All of it; says what was dropped.

    Raises:
        DataError: it cannot be read, or nothing is left.
        ConfigError: the options do not fit what task.dev is.
    """
    tally, random = Tally(), np.random.default_rng(seed)
    triples = options.negative is not None
    pairs = [options.query, options.text, options.score]
    columns, read = (
        ([options.query, options.positive, options.negative], read_triples) if triples else (pairs, read_pairs)
    )
    layout = layout_of(options)
    train, found = read(options.train, columns, layout, key="task.train", tell=tally.add)
    dropped = {"train": found}
    if options.dev is None:
        in_dev = with_queries(train, split_queries(train["text"].to_pylist(), options.dev_share, random))
        dev, left = gather(gains_of(pick(train, in_dev)))
        train = pick(train, ~in_dev)
    else:
        if Path(options.dev).expanduser().is_dir():
            dev, left = _read_folder(options, seed, console)
        else:
            _refuse_candidates(options)
            table, dropped[DEV] = read_pairs(options.dev, pairs, layout, key="task.dev", tell=tally.add)
            dev, left = gather(gains_of(table))
        in_dev = with_queries(train, dev.queries)
        dropped["train"] = replace(found, overlap=int(in_dev.sum()) // (1 + triples))
        train = pick(train, ~in_dev)
    for note in tally.notes:
        console.print(note, soft_wrap=True)
    _tell(dropped, left, console, triples=triples)
    if not dev.queries:
        raise DataError(
            f"dev has no query to score by ({', '.join(_reasons(left))}); give queries with texts that are relevant and others "
            "that are not"
        )
    if options.dev_limit is not None and options.dev_limit < len(dev.queries):
        dev = dev.take(np.sort(random.permutation(len(dev.queries))[: options.dev_limit]))
    train = _limit(train, options.train_limit, random, together=1 + triples)
    _check_train(train, options.score, triples=triples)
    counts = np.diff(dev.bounds)
    console.print(f"dev: {len(dev.queries)} queries, each with {counts.min()} to {counts.max()} texts to rank")
    return Examples(train, 1 + triples, dev, left, dropped, tally.notes)


def keep_out(examples: Examples, column: str, seed: int) -> tuple[Examples, Candidates]:
    """The same with fewer training queries, and those that were taken out of them, a tenth; `column` has the scores.

    Raises:
        DataError: there are too few.
    """
    queries = examples.train["text"].to_pylist()
    if len(names := set(queries)) > 1:
        chosen = split_queries(queries, kept_out_share(len(names)), np.random.default_rng(seed))
        taken = with_queries(examples.train, chosen)
        found, _ = gather(gains_of(pick(examples.train, taken)))
        if found.queries:
            train = pick(examples.train, ~taken)
            _check_train(train, column, triples=examples.together > 1)
            return replace(examples, train=train), found
    raise DataError(
        f"of the {len(names)} training queries none that has both relevant texts and others can be kept out to choose by "
        "(evaluation.choose_on = 'train'); add queries, or set evaluation.choose_on = 'dev'"
    )


def _read_folder(options: Any, seed: int, console: Console) -> tuple[Candidates, Left]:
    retrieval = read_retrieval(options.dev, options.split, "task.dev")
    if options.candidates is not None:
        chosen = read_candidates(options.candidates, retrieval, "task.candidates")
        return gather_from(retrieval, chosen, 0, seed)
    console.print(
        f"dev: beside the judged texts of a query, {options.negatives} drawn from the corpus, which are easier to tell than what a "
        "search finds; task.candidates names those",
        soft_wrap=True,
    )
    return gather_from(retrieval, None, options.negatives, seed)


def _refuse_candidates(options: Any) -> None:
    if options.candidates is not None:
        raise ConfigError(
            f"task.candidates is given, but task.dev is '{options.dev}', a file of pairs, which has each query's texts already; "
            "leave it out"
        )


def _limit(table: pa.Table, most: int | None, random: np.random.Generator, *, together: int) -> pa.Table:
    groups = table.num_rows // together
    if most is None or most >= groups:
        return table
    chosen = np.zeros(groups, dtype=bool)
    chosen[random.permutation(groups)[:most]] = True
    return pick(table, np.repeat(chosen, together))


def _check_train(table: pa.Table, column: str, *, triples: bool) -> None:
    if table.num_rows == 0:
        raise DataError(
            "train has no rows left: all are empty, repeated, contradicting, or have a query of dev; give others in task.train"
        )
    scores = table["label"].to_numpy()
    if not triples and scores.min() == scores.max():
        raise DataError(
            f"every score of train in column {column!r} is {scores[0]:g}, from which nothing can be learnt; add pairs with "
            "another score"
        )


def _tell(dropped: dict[str, Dropped], left: Left, console: Console, *, triples: bool) -> None:
    contradicting = "with one text on both sides" if triples else "contradicting"
    names = {
        "empty": "empty",
        "contradicting": contradicting,
        "duplicates": "repeated",
        "overlap": "with a query of dev",
    }
    for name, counts in dropped.items():
        told = [f"{count} {names[why]}" for why, count in asdict(counts).items() if count]
        if told:
            console.print(
                f"{name}: dropped {_listed(told)} {'triples' if triples and name != DEV else 'pairs'}", soft_wrap=True
            )
    if any(asdict(left).values()):
        console.print(f"dev: left out {_listed(_reasons(left))}", soft_wrap=True)


def _reasons(left: Left) -> list[str]:
    names = {
        "irrelevant": "without a relevant text",
        "alike": "whose texts are all as relevant",
        "empty": "without candidates",
    }
    return [f"{count} queries {names[why]}" for why, count in asdict(left).items() if count]


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts)
