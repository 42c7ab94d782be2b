"""Score a trained model on a task's dev set.

Example: plankwise evaluate runs/demo/successor

The task is that of the run the model lies in; for any other model say it: task.name=glue task.subset=rte task.folder=RTE
"""

from pathlib import Path
from typing import Annotated

import typer

from plankwise.cli._completion import complete_keys

NEEDS_ARGUMENTS = True


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="folder or hub name of a trained model")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="keys to set; see `plankwise list keys`", autocompletion=complete_keys
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="write the metrics to this JSON file", show_default="none")] = None,
) -> None:
    import json

    from rich.table import Table

    from plankwise.cli._console import give, open_console
    from plankwise.cli._models import config_for
    from plankwise.files import write_text

    config = config_for(model, overrides or [], "say it")

    from plankwise.report.remarks import constant_claim
    from plankwise.run.inference import evaluate

    console = open_console()
    metrics = evaluate(config, console)
    table = Table(box=None, pad_edge=False)
    table.add_column("metric")
    table.add_column("value", justify="right")
    for name, value in metrics.items():
        if name != "beyond_constant":
            table.add_row(name, f"{value:.4f}")
    console.print(model, soft_wrap=True)
    console.print(table)
    if claim := constant_claim(metrics):
        console.print(f"the model {claim}: train it longer, cut less, or try another learning rate", soft_wrap=True)
    if out is not None:
        write_text(out, json.dumps(metrics, indent=2))
    give(metrics, out)
