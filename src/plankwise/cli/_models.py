"""A model given on the command line: what `evaluate`, `predict` and `export` share."""

import json
from pathlib import Path

from plankwise.config import RunConfig, load_config
from plankwise.errors import ConfigError
from plankwise.run.folders import CONFIG, find_config, refer_to_predecessor


def config_for(model: str, overrides: list[str], task_wanted: str = "", *, run: Path | None = None) -> RunConfig:
    """The config of the run that the model is of, by default the one that it lies in, or the defaults, with overrides.

    `task_wanted` says what to do where no task is known, for commands that need one.

    Raises:
        ConfigError: a run's folder instead of a model's; a task is needed and not given; or the config is wrong.
    """
    recipe = find_config(model) if run is None else run.expanduser() / CONFIG
    if task_wanted and recipe is None and not any(override.startswith("task.") for override in overrides):
        raise ConfigError(
            f"{model} does not lie in the folder of a run, so its task is not known; {task_wanted}, "
            "for example task.name=glue task.subset=rte"
        )
    config = load_config(recipe, [*overrides, f"predecessor.path={json.dumps(model, ensure_ascii=False)}"])
    return config if recipe is None else refer_to_predecessor(config, recipe)
