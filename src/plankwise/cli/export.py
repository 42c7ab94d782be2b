"""Export a trained model for ONNX Runtime, OpenVINO or torch, with all that it takes to predict without plankwise.

Example: plankwise export runs/demo --to onnx --precision int8 --check

Of a run's folder, its successor is exported, to export/ inside it; of a model's folder, the model, to a folder beside it.
A model that lies in no run needs its task for --check and --quantise static: task.name=glue task.subset=rte task.folder=RTE
"""

from pathlib import Path
from typing import Annotated

import typer

from plankwise.cli._completion import complete_keys

NEEDS_ARGUMENTS = True


def command(
    source: Annotated[
        str, typer.Argument(metavar="RUN|FOLDER", help="folder of a finished run, or of a trained model")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="keys to set; see `plankwise list keys`", autocompletion=complete_keys
        ),
    ] = None,
    to: Annotated[str, typer.Option(help="the format; see `plankwise list export`")] = "onnx",
    precision: Annotated[str, typer.Option(help="fp32, fp16 or int8")] = "fp32",
    quantise: Annotated[
        str | None,
        typer.Option(help="of int8: dynamic, or static, by training texts", show_default="dynamic"),
    ] = None,
    safe: Annotated[
        bool | None,
        typer.Option(
            "--safe-range/--full-range",
            help="of int8: 7 bits, for CPUs without VNNI",
            show_default="what this CPU needs",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="of a run: successor, predecessor or truncated", show_default="successor"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="folder to write", show_default="RUN/export or beside FOLDER"),
    ] = None,
    vocabulary: Annotated[
        list[str] | None,
        typer.Option(
            help="keep the tokens of these texts alone: task, or a text file",
            show_default="all tokens",
        ),
    ] = None,
    check: Annotated[bool, typer.Option(help="compare with torch on dev; write nothing if too much is lost")] = False,
    tolerance: Annotated[float, typer.Option(help="of --check: share of the score that may be lost")] = 0.01,
    force: Annotated[bool, typer.Option(help="replace what is there")] = False,
) -> None:
    from dataclasses import replace

    from plankwise.cli._console import give, open_console
    from plankwise.cli._models import config_for
    from plankwise.errors import ConfigError
    from plankwise.kinds import list_kinds, no_such

    if to not in (known := list_kinds("export")):
        raise ConfigError(f"--to is {to!r}; {no_such(to, known, 'format')}")

    from plankwise.run.export_request import MODELS, ExportRequest, is_run, model_of_run, usual_place
    from plankwise.run.folders import find_config

    folder, path, chosen = Path(source).expanduser(), source, None
    request = ExportRequest(
        to, precision, quantise, safe, check, tolerance, force=force, vocabulary=tuple(vocabulary or ())
    )
    if is_run(source):
        chosen = model or MODELS[0]
        path = model_of_run(folder, chosen)
    elif model is not None:
        raise ConfigError(f"--model is {model!r}, but {source} is not the folder of a run; leave --model out")
    wanted = "say it, or leave --check, --quantise static and --vocabulary task out" if request.needs_task else ""
    config = config_for(path, overrides or [], wanted, run=folder if chosen else None)
    of_a_run = chosen is not None or find_config(path) is not None
    if of_a_run or any(override.startswith("training.max_length=") for override in overrides or []):
        request = replace(request, max_length=config.training.max_length)
    place = out or usual_place(folder, request.name, chosen)

    from plankwise.run.exporting import export

    console = open_console()
    written = export(config, request, place, console)
    if found := written["check"]:
        equal = "" if found["equal_answers"] is None else f", {found['equal_answers']:.2%} of answers equal"
        console.print(
            f"check: {found['texts']} texts, logits differ by up to {found['largest_difference']:.2g}{equal}, "
            f"score {found['score']:.4f} (torch {found['torch_score']:.4f})",
            soft_wrap=True,
        )
    console.print(
        f"{written['size_mb']:.1f} MB in {place}; try: python {place}/predict.py {written['usage']}", soft_wrap=True
    )
    give(written, place)
