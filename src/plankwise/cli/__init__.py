"""The command line: one file per command; errors that a user can fix are one sentence and exit code 2."""

import os
import sys

import typer

from plankwise.context import is_main_process, ranks_have_met
from plankwise.errors import PlankwiseError
from plankwise.kinds import list_kinds, load_kind


def build() -> typer.Typer:
    """The application, made of the commands in this folder."""
    app = typer.Typer(
        name="plankwise",
        help="Makes a trained transformer smaller and faster by progressive module replacing.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    for name in list_kinds("cli"):
        module = load_kind("cli", name, key="command")
        app.command(
            name,
            help=module.__doc__,
            cls=getattr(module, "COMMAND_CLASS", None),
            no_args_is_help=module.NEEDS_ARGUMENTS,
        )(module.command)

    @app.callback()
    def plankwise() -> None:
        """Keeps the name of the command even if there is only one."""

    return app


def main() -> None:
    """What the console script runs."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        build()()
    except PlankwiseError as error:
        if is_main_process():
            print(f"plankwise: {error}", file=sys.stderr)
        elif ranks_have_met() and not error.told_by_rank_0:
            print(f"plankwise, rank {os.environ['RANK']}: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
