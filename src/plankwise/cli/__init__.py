"""The command line: one file per command; errors that a user can fix are one sentence and exit code 2.

A file offers:

    command(...)        what it does, with the arguments and options that Typer reads from its signature
    NEEDS_ARGUMENTS     whether it shows its help when it is given none
    COMMAND_CLASS       optional: what writes its help, a PlainCommand

Its docstring is its help. What takes seconds to import is imported inside, once the arguments are known to be right.
"""

import os
import shlex
import sys
from typing import Annotated

import typer

from plankwise.cli._console import OUTPUT, Json, Quiet, shared
from plankwise.cli._help import CommandGroup, PlainCommand
from plankwise.context import count_processes, is_main_process, ranks_have_met
from plankwise.errors import PlankwiseError, shorten
from plankwise.kinds import list_kinds, load_kind
from plankwise.options import MOST_GIVEN
from plankwise.training.interruption import InterruptedRunError, without_tracebacks


def build() -> typer.Typer:
    """The application, made of the commands in this folder."""
    app = typer.Typer(
        name="plankwise",
        cls=CommandGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # it would swallow [training] and [KEY=VALUE]
    )
    for name in list_kinds("cli"):
        module = load_kind("cli", name, key="command")
        app.command(
            name,
            help=module.__doc__,
            cls=getattr(module, "COMMAND_CLASS", PlainCommand),
            no_args_is_help=module.NEEDS_ARGUMENTS,
        )(shared(module.command))

    @app.callback()
    def plankwise(
        version: Annotated[
            bool, typer.Option("--version", callback=_show_version, is_eager=True, help="print the version and exit")
        ] = False,
        quiet: Quiet = False,
        as_json: Json = False,
    ) -> None:
        """Makes a trained transformer smaller and faster by progressive module replacing."""
        OUTPUT.quiet, OUTPUT.json = quiet, as_json

    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        from plankwise import __version__

        print(f"plankwise {__version__}")
        raise typer.Exit


def main() -> None:
    """What the console script runs."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        with without_tracebacks():
            build()(prog_name="plankwise")
    except PlankwiseError as error:
        if is_main_process():
            print(f"plankwise: {error}{_go_on(error)}", file=sys.stderr)
        elif ranks_have_met() and not error.told_by_rank_0:
            print(f"plankwise, rank {os.environ['RANK']}: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.filename is None:  # nothing that a user named
            raise
        name, reason = shorten(str(error.filename), MOST_GIVEN), error.strerror or type(error).__name__
        print(f"plankwise: {name} cannot be used ({reason}); give another, or put it right", file=sys.stderr)
        sys.exit(PlankwiseError.exit_code)


def _go_on(error: PlankwiseError) -> str:
    """The command to repeat, after a stop that it goes on from."""
    if not isinstance(error, InterruptedRunError) or not error.goes_on or count_processes() > 1:
        return ""
    return f": plankwise {shlex.join(sys.argv[1:])}"
