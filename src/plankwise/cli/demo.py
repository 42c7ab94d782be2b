"""Show the whole job on the embedded model and data: 6 layers to 3, solved, replaced, exported as int8; ends with a page.

Example: plankwise demo run.folder=runs/my-demo
"""

from pathlib import Path
from typing import Annotated

import typer

from plankwise.cli._completion import complete_keys

NEEDS_ARGUMENTS = False
SETTINGS = [
    "run.name=demo",
    "task.name=reviews",
    "task.train_limit=1400",
    "task.dev_limit=600",
    "predecessor.training.epochs=2",
    "plan.successors=3",
    "plan.cut=late",
    "plan.init=solved",
    "plan.solving.tokens=8000",
    "training.epochs=2",
    "training.learning_rate=1.5e-4",
    "training.max_length=64",
    "evaluation.latency_batch_sizes=[1]",
    "evaluation.latency_predictions=50",
    "evaluation.estimate=false",  # it takes as long as what it would tell of is short
]
BATCH_SIZES = (1, 8)  # that predictions are timed with


def command(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...",
            help="keys to set otherwise; `plankwise list keys` has them all",
            autocompletion=complete_keys,
        ),
    ] = None,
) -> None:
    from dataclasses import replace

    from plankwise.cli._console import give, open_console
    from plankwise.cli._tables import show_results
    from plankwise.config import load_data, validate_config
    from plankwise.context import is_main_process

    data = load_data(None, [*SETTINGS, *(overrides or [])])
    config = validate_config(data)

    from plankwise.report.page import write_report
    from plankwise.report.results import export_row, results_of
    from plankwise.run.analysis import AnalysisRequest, analyse
    from plankwise.run.compress import compress
    from plankwise.run.export_request import ExportRequest
    from plankwise.run.exported import measure_export
    from plankwise.run.exporting import export
    from plankwise.run.log import logged

    console, folder = open_console(), Path(config.run.folder)
    console.print(
        "fine-tuning a 6-layer encoder on film reviews; then 3 layers take the place of its 6, solved by least squares"
    )
    # The first table, in a folder beside the run's: successors that are solved and nothing else.
    run = {**data.get("run", {}), "folder": f"{folder}-solved", "effort": "seconds"}
    quick = {**data.get("evaluation", {}), "latency": False}
    first = compress(validate_config({**data, "run": run, "method": {"name": "solve"}, "evaluation": quick}), console)
    if is_main_process():
        show_results(first, console)
    console.print("\nnow the same, and then trained: layers are replaced by chance, until the 3 new ones are left")
    trained = {**data.get("predecessor", {}), "path": first["predecessor"]["path"], "finetune": False}
    record = compress(validate_config({**data, "predecessor": trained}), console)
    if not is_main_process():
        return
    if "analysis" not in record:
        predictions = config.evaluation.latency_predictions
        record = analyse(folder, AnalysisRequest(batch_sizes=BATCH_SIZES, predictions=predictions), console)
    place = folder / "export" / "onnx-int8"
    if not place.exists():
        export(validate_config(_of_successor(data, folder)), ExportRequest("onnx", "int8"), place, console)
    found = measure_export(folder, record, place, console)
    with logged(console, folder):
        results = results_of(record)
        replace(results, rows=[*results.rows, export_row(record, "successor, int8", found)]).print(console)
    page = write_report([folder], folder / "report.html")
    console.print(str(page), soft_wrap=True)
    give({**record, "folder": folder, "report": page}, page)


def _of_successor(data: dict, folder: Path) -> dict:
    """The config's data with the run's successor as the model."""
    return {**data, "predecessor": {"path": str(folder / "successor"), "finetune": False}}
