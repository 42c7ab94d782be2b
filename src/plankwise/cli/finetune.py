"""Fine-tune a model on a task, all of it: a compressed language model, or any other.

Example: plankwise finetune --model runs/domain/successor recipes/reviews.toml predecessor.training.epochs=3

It is trained as [predecessor.training] says. A run that was stopped goes on when the same command is given again.
"""

from pathlib import Path
from typing import Annotated

import typer

from plankwise.cli._keys import KeysCommand

NEEDS_ARGUMENTS = True
COMMAND_CLASS = KeysCommand


def command(
    task: Annotated[
        list[str],
        typer.Argument(
            metavar="[RECIPE] [KEY=VALUE]...",
            help="a TOML file that says the task, or keys that do",
            show_default=False,
        ),
    ],
    model: Annotated[str, typer.Option(help="folder or hub name of the model to train", show_default=False)],
) -> None:
    from plankwise.cli._console import open_console
    from plankwise.cli._tables import show_finetuned
    from plankwise.config import load_data, validate_config
    from plankwise.errors import ConfigError
    from plankwise.run.finetune import finetune

    recipes = [text for text in task if "=" not in text or Path(text).is_file()]
    if len(recipes) > 1:
        raise ConfigError(f"{len(recipes)} recipes are given ({', '.join(recipes)}); a model is trained on one task")
    keys = [text for text in task if text not in recipes]
    data = load_data(Path(recipes[0]) if recipes else None, keys)
    if not any(key.startswith(("run.name=", "run.folder=")) for key in keys):
        data["run"] = {**data.get("run", {}), "name": f"{data.get('run', {}).get('name', 'run')}-finetuned"}
        data["run"].pop("folder", None)
    data["predecessor"] = {**data.get("predecessor", {}), "path": model}
    console = open_console()
    show_finetuned(finetune(validate_config(data), console), console)
