"""Reads whatever examples a config asks for."""

from typing import Any

from rich.console import Console

from plankwise.config import RunConfig
from plankwise.examples._base import Examples
from plankwise.examples.labelled import read_labelled
from plankwise.examples.text import Text
from plankwise.tasks import text


def read_examples(config: RunConfig, tokenizer: Any, console: Console) -> Examples:
    """The config's examples, and says what was dropped or cut.

    Raises:
        PlankwiseError: they cannot be read.
    """
    if isinstance(config.task, text.Options):
        return Text(config.task, config, tokenizer)
    return read_labelled(config.task, config, tokenizer, console)
