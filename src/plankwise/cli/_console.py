"""What all commands share: where they print, the options --quiet and --json, and how they give their result.

As a rule a command prints for people, on standard output. With --quiet it prints nothing but errors and, at its end, where its
result is. With --json standard output holds the result as JSON and nothing else; all other text goes to standard error.
"""

import contextlib
import inspect
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console

from plankwise.context import is_main_process
from plankwise.training.interruption import InterruptedRunError

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="print only errors and, at the end, where the result is")]
Json = Annotated[bool, typer.Option("--json", help="print the result as JSON, and all else to standard error")]


@dataclass
class Output:
    """What was asked for before or after the command's name."""

    quiet: bool = False
    json: bool = False
    results: TextIO | None = None  # where results go; standard output if not said


OUTPUT = Output()


def shared(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that all commands have."""

    @wraps(command)
    def run(*, quiet: bool, as_json: bool, **given: Any) -> None:
        OUTPUT.quiet |= quiet
        OUTPUT.json |= as_json
        OUTPUT.results = sys.stdout
        # What a library prints must not get among the result.
        with contextlib.redirect_stdout(sys.stderr) if OUTPUT.json else contextlib.nullcontext():
            try:
                command(**given)
            except KeyboardInterrupt:
                raise InterruptedRunError("stopped", signal.SIGINT, goes_on=False) from None

    own = inspect.signature(command)
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
        for name, annotation in {"quiet": Quiet, "as_json": Json}.items()
    ]
    run.__signature__ = own.replace(parameters=[*own.parameters.values(), *more])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, "quiet": Quiet, "as_json": Json}
    return run


def open_console() -> Console:
    """The terminal as the user wants it; text is shown as it is, so that brackets and colons in names and data stay.

    Of several processes that were started together, rank 0 alone prints.
    """
    quiet = OUTPUT.quiet or not is_main_process()
    return Console(markup=False, emoji=False, quiet=quiet, stderr=OUTPUT.json)


def give(result: Any, path: Path | str | None = None) -> None:
    """Ends a command: with --json its result, with --quiet the path where its result is."""
    if not is_main_process():
        return
    if OUTPUT.json:
        print(json.dumps(result, indent=2, ensure_ascii=False, default=str), file=OUTPUT.results)
    elif OUTPUT.quiet and path is not None:
        print(path, file=OUTPUT.results)
