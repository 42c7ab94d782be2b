"""A model given on the command line: what `evaluate` and `predict` share."""

from pathlib import Path

from plankwise.config import RunConfig, load_config
from plankwise.folders import CONFIG


def config_for(model: str, overrides: list[str]) -> RunConfig:
    """The config of the run that the model lies in, or the defaults, with overrides."""
    recipe = Path(model).parent / CONFIG
    return load_config(recipe if recipe.is_file() else None, [*overrides, f"predecessor.path={model}"])
