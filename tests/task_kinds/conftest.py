"""Every kind of task, opened on its tiny example."""

from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from kind_examples import find_example
from plankwise.config import validate_config
from plankwise.kinds import load_kind
from plankwise.models.loading import Loader
from plankwise.task_kinds import read_task


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
