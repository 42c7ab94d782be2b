"""Take tokens that a domain never uses out of a model: its tokenizer and its embedding table shrink together.

Example: plankwise trim runs/demo/successor --vocabulary task --out trimmed

Example: plankwise trim bert-base-uncased --vocabulary corpus.txt --out trimmed

On the texts that are given the model answers as before, to the bit; any other text is still encoded, into smaller pieces.
"""

from pathlib import Path
from typing import Annotated

import typer

from plankwise.cli._completion import complete_keys

NEEDS_ARGUMENTS = True


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="folder or hub name of a model")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="keys to set; see `plankwise list keys`", autocompletion=complete_keys
        ),
    ] = None,
    vocabulary: Annotated[
        list[str] | None,
        typer.Option(
            help="text file with one text a line, or task: the task's training texts; may be given several times",
            show_default="none",
        ),
    ] = None,
    count: Annotated[int, typer.Option("--min-count", help="occurrences from which on a token is kept")] = 1,
    out: Annotated[Path | None, typer.Option(help="folder to write", show_default="none")] = None,
) -> None:
    from plankwise.cli._console import give, open_console
    from plankwise.cli._models import config_for
    from plankwise.errors import ConfigError

    if not vocabulary:
        raise ConfigError(
            "--vocabulary is not given; name a text file with one text a line, or task for its training texts"
        )
    if out is None:
        raise ConfigError("--out is not given; name the folder to write")
    config = config_for(model, overrides or [], "say it" if "task" in vocabulary else "")

    from plankwise.run.trimming import trim_folder

    console = open_console()
    told = trim_folder(config, vocabulary, out, console, min_count=count)
    console.print(
        f"{out}: {told['tokens']:,} of {told['tokens_before']:,} tokens kept; {told['size_mb_before']:.1f} MB became "
        f"{told['size_mb']:.1f} MB",
        soft_wrap=True,
    )
    give(told, out)
