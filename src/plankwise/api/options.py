"""The options of a call as a config: sections and keys of a recipe; data and models in memory go into the run's folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console

from plankwise.api.given import Data, is_data, write_examples, write_model
from plankwise.config import RunOptions, load_data
from plankwise.context import is_main_process

Section: TypeAlias = Mapping[str, Any]  # keys and values as in a recipe's section


def gather(
    recipe: str | Path | None, model: Any, task: "str | Section | Data | None", sections: Mapping[str, Section | None]
) -> dict:
    """A recipe's data with sections laid over it; a task of another name replaces the recipe's."""
    data = load_data(None if recipe is None else Path(recipe), [])
    for name, section in sections.items():
        if section is not None:
            data[name] = _merge(data.get(name, {}), section)
    if task is not None:
        given = read_task(task)
        known = data.get("task", {})
        other = given.get("name", known.get("name")) != known.get("name")
        data["task"] = given if other else _merge(known, given)
    if isinstance(model, str | Path):
        data["predecessor"] = {**data.get("predecessor", {}), "path": str(model)}
    return data


def read_task(task: "str | Section | Data") -> dict[str, Any]:
    """A [task] section: from a task's name, from a section, or from training examples alone."""
    if isinstance(task, str):
        return {"name": task}
    if is_data(task):
        return {"name": "table", "train": task}
    given = dict(task)
    return {"name": "table", **given} if "name" not in given and "train" in given else given


def complete(data: dict, model: Any, tokenizer: Any, folder: Path) -> dict:
    """The same with whatever is in memory written below `folder`."""
    if model is not None and not isinstance(model, str | Path):
        data["predecessor"] = {**data.get("predecessor", {}), "path": write_model(model, tokenizer, folder)}
    if isinstance(data.get("task"), dict):
        data["task"] = write_examples(data["task"], folder)
    return data


def folder_of(data: dict) -> Path:
    """The run's folder, before anything else of the config is known to be right."""
    return Path(RunOptions.model_validate(data.get("run", {})).folder)


def open_console(*, quiet: bool) -> Console:
    """Of several processes that were started together, rank 0 alone prints."""
    return Console(markup=False, emoji=False, quiet=quiet or not is_main_process())


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        nested = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if nested else value
    return merged
