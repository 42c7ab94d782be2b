"""A run of a second on a tiny model; and a count of the cases that were tried."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `inputs`


def pytest_terminal_summary(terminalreporter) -> None:
    """Says how many cases each test has tried, whichever process it ran in."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "cases":
                terminalreporter.write_line(f"cases: {value}")


@pytest.fixture
def make_recipe(recipe, tiny_expert_folder, tmp_path):
    """Writes a recipe of 8 steps, with more keys if need be, that saves at each second one; the predecessor knows the task."""
    from plankwise.config import load_config

    keys = [f"predecessor.path={tiny_expert_folder}", "training.max_steps=8", "training.batch_size=8"]
    keys += ["training.save_every=2", "training.evaluate_every=4", "training.learning_rate=1e-3"]
    keys += ["evaluation.latency=false", "evaluation.estimate=false", "evaluation.truncated=false"]

    def make(*more: str) -> str:
        file = tmp_path / "quick.toml"
        file.write_text(load_config(recipe, [*keys, *more]).to_toml())
        return str(file)

    return make


@pytest.fixture
def quick_recipe(make_recipe):
    return make_recipe()
