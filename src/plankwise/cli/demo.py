"""Show the whole job on the embedded model and data: 6 layers to 3, a few minutes on two cores.

Example: plankwise demo run.folder=runs/my-demo
"""

from typing import Annotated

import typer

NEEDS_ARGUMENTS = False
SETTINGS = [
    "run.name=demo",
    "task.name=reviews",
    "task.train_limit=1600",
    "task.dev_limit=1000",
    "predecessor.training.epochs=2",
    "plan.successors=3",
    "training.epochs=4",
    "training.max_length=64",
    "evaluation.latency_batch_sizes=[1]",
]


def command(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="keys to set otherwise; `plankwise compress --help` lists them"),
    ] = None,
) -> None:
    from plankwise.cli._console import open_console
    from plankwise.cli._tables import show_results
    from plankwise.config import load_config
    from plankwise.run import compress

    console = open_console()
    config = load_config(None, [*SETTINGS, *(overrides or [])])
    console.print("fine-tuning a 6-layer encoder on film reviews, then replacing its 6 layers by 3, plank by plank")
    show_results(compress(config, console), console)
