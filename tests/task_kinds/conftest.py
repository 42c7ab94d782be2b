"""Tiny examples of every kind of task: each has a file `example_KIND.py` somewhere under tests, with a `section(folder)`.

Kinds whose models are no encoders add a `model(folder)`, which saves one, with all of its weights.
"""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from plankwise.config import validate_config
from plankwise.kinds import load_kind
from plankwise.models.loading import Loader
from plankwise.task_kinds import read_task

TESTS = Path(__file__).parent.parent


def find_example(kind: str):
    found = list(TESTS.rglob(f"example_{kind}.py"))
    assert len(found) == 1, (
        f"write tests/task_kinds/example_{kind}.py with section(folder): its files, and its [task] section"
    )
    spec = importlib.util.spec_from_file_location(f"example_{kind}", found[0])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def opened(tmp_path_factory, tiny_model_folder):
    """Makes, by its name, a kind with a config, its task, laid out, and a model with a head for it; once each."""
    made: dict[str, SimpleNamespace] = {}

    def make(name: str) -> SimpleNamespace:
        if name not in made:
            folder, example = tmp_path_factory.mktemp(name), find_example(name)
            model = example.model(folder / "model") if hasattr(example, "model") else tiny_model_folder
            config = validate_config(
                {
                    "task": example.section(folder),
                    "predecessor": {"path": str(model)},
                    "training": {"max_length": 16, "batch_size": 4, "max_steps": 2},
                }
            )
            console, loader = Console(quiet=True), Loader()
            task = read_task(config, loader.tokenizer(config.predecessor.path), console)
            task.lay_out(folder, console)
            kind = load_kind("task_kinds", name, key="KIND")
            torch.manual_seed(0)  # of the new head, whatever ran before
            made[name] = SimpleNamespace(
                kind=kind,
                config=config,
                task=task,
                loader=loader,
                console=console,
                folder=folder,
                whole=hasattr(example, "model"),
                loaded=task.load(loader, config.predecessor.path),
            )
        return made[name]

    return make
