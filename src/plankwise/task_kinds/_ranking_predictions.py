"""What `plankwise predict` writes of a cross-encoder: a score for each pair of a table, and the text's rank for its query."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from scipy.stats import rankdata

from plankwise.config import RunConfig
from plankwise.data.pieces import Layout, Piece
from plankwise.errors import ConfigError
from plankwise.models.loading import Loader
from plankwise.models.rankers import scores_of
from plankwise.task_kinds._label_predictions import Classifier
from plankwise.task_kinds._prediction_rows import check_columns, check_file, find_test, read_texts, write_beside
from plankwise.task_kinds._ranking_examples import layout_of


def predict_table(
    config: RunConfig, loader: Loader, path: Path, texts: list[str], layout: Layout, out: Path, console: Console
) -> list[Path]:
    """Writes a CSV with all columns of the table, then `score`, what `CrossEncoder` gives, and `rank`.

    Raises:
        PlankwiseError: the model or the table cannot be used.
    """
    check_columns(texts, 2, "name the column of the queries, then that of the texts")
    check_file(out)
    _write(config, loader, Piece(path, layout), texts, out, console, key="--table")
    return [out]


def predict_tests(config: RunConfig, loader: Loader, out: Path, console: Console) -> list[Path]:
    """The same of the task's test file, in the folder `out`.

    Raises:
        PlankwiseError: the task has no test file, or the model does not fit.
    """
    options: Any = config.task
    test = find_test(options, out, "pairs to score, or give --table and --text twice")
    piece = Piece(Path(test).expanduser(), layout_of(options))
    file = out / f"{piece.path.stem}.csv"
    _write(config, loader, piece, [options.query, options.text], file, console, key="task.test")
    return [file]


def _write(
    config: RunConfig, loader: Loader, piece: Piece, texts: list[str], out: Path, console: Console, *, key: str
) -> None:
    path = config.predecessor.path
    model = Classifier(config, loader)
    if model.labels:
        raise ConfigError(
            f"{path} has {len(model.labels)} classes, not one score; give a model that was trained on rankings"
        )
    table = read_texts(piece, texts, console, key=key)
    logits = model.outputs(pa.table({"text": table[texts[0]], "text_pair": table[texts[1]]}), console)
    ranks = rank_by_query(table[texts[0]].to_pylist(), logits)
    scores = scores_of(logits, loader.config(path), path)
    cells = ([f"{score:.6f}", str(rank)] for score, rank in zip(scores.tolist(), ranks.tolist(), strict=True))
    write_beside(out, piece, ["score", "rank"], cells, len(logits), console)


def rank_by_query(queries: Sequence[str], scores: np.ndarray) -> np.ndarray:
    """The rank of each row among those with the same query, (N,), from 1; equal scores share the best rank."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, query in enumerate(queries):
        rows[query].append(row)
    ranks = np.empty(len(scores), dtype=np.int64)
    for own in rows.values():
        ranks[own] = rankdata(-scores[own], method="min")
    return ranks
