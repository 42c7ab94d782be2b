"""Fine-tune a model on a task, all of it: a compressed language model, or any other.

Example: plankwise finetune recipes/reviews.toml --model runs/domain/successor predecessor.training.epochs=3

It is trained as [predecessor.training] says. A run that was stopped goes on when the same command is given again.
"""

from pathlib import Path
from typing import Annotated

import typer

from plankwise.cli._completion import complete_recipes

NEEDS_ARGUMENTS = True


def command(
    task: Annotated[
        list[str],
        typer.Argument(
            metavar="[RECIPE] [KEY=VALUE]...",
            help="a TOML file that says the task, or keys that do; see `plankwise list keys`",
            autocompletion=complete_recipes,
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(help="folder or hub name of the model to train", show_default="the recipe's predecessor.path"),
    ] = None,
) -> None:
    from plankwise.cli._console import give, open_console
    from plankwise.cli._tables import show_finetuned
    from plankwise.config import load_data, validate_config
    from plankwise.context import is_main_process
    from plankwise.errors import ConfigError

    recipes = [text for text in task if "=" not in text or Path(text).is_file()]
    if len(recipes) > 1:
        raise ConfigError(f"{len(recipes)} recipes are given ({', '.join(recipes)}); a model is trained on one task")
    keys = [text for text in task if text not in recipes]
    data = load_data(Path(recipes[0]) if recipes else None, keys)
    if not any(key.startswith(("run.name=", "run.folder=")) for key in keys):
        data["run"] = {**data.get("run", {}), "name": f"{data.get('run', {}).get('name', 'run')}-finetuned"}
        data["run"].pop("folder", None)
    if model is not None:
        data["predecessor"] = {**data.get("predecessor", {}), "path": model}
    config = validate_config(data)

    from plankwise.run.finetune import finetune
    from plankwise.run.log import logged

    console, folder = open_console(), Path(config.run.folder)
    record = finetune(config, console)
    if is_main_process():
        with logged(console, folder):
            show_finetuned(record, console)
        give({**record, "folder": folder}, record["model"]["path"])
