"""Tagged words in jsonl files: a line is {"words": […], "tags": […]}, as many tags as words."""

import json
from pathlib import Path
from typing import Literal

from pydantic import Field

from plankwise.config import Options as SectionOptions
from plankwise.errors import DataError

KIND = "word_tags"
Row = tuple[list[str], list[str]]  # words, their tags


class Options(SectionOptions):
    name: Literal["tag_lines"] = Field("tag_lines", description="the kind of task")
    train: str = Field(min_length=1, description="jsonl file of training examples")
    dev: str = Field(min_length=1, description="jsonl file of held-out examples")


def read(options: Options) -> tuple[list[Row], list[Row]]:
    """The rows of train and of dev.

    Raises:
        DataError: a file cannot be read, or a line is not what it should be.
    """
    return _read_file(options.train, "task.train"), _read_file(options.dev, "task.dev")


def _read_file(path: str, key: str) -> list[Row]:
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{key} is {path}, which cannot be read ({error}); give a utf-8 jsonl file") from None
    return [_read_line(line, f"{path} line {number}") for number, line in enumerate(lines, 1)]


def _read_line(line: str, where: str) -> Row:
    try:
        row = json.loads(line)
        words, tags = list(row["words"]), list(row["tags"])
    except (ValueError, KeyError, TypeError):
        raise DataError(f'{where} is not of the form {{"words": […], "tags": […]}}; write it so') from None
    if not words or len(words) != len(tags):
        raise DataError(f"{where} has {len(words)} words and {len(tags)} tags; give one tag for each of its words")
    return words, tags
