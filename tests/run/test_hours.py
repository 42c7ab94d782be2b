"""`run.effort = "hours"` on every kind of task that has it: a search, chosen on training examples that were kept out."""

import sys
from pathlib import Path

import pytest
from rich.console import Console

from plankwise.config import validate_config
from plankwise.run import searching
from plankwise.run.compress import compress

sys.path.insert(0, str(Path(__file__).parents[1] / "task_kinds"))
from test_choosing import section_of


@pytest.fixture
def search(tmp_path, tiny, monkeypatch):
    """Runs with one learning rate and one seed, so that methods and plans alone are searched."""
    monkeypatch.setattr(searching, "RATES", (5e-4,))
    monkeypatch.setattr(searching, "SEEDS", 1)

    def search(kind):
        model = tiny.save_bert(tmp_path / "model", initializer_range=0.3)
        config = {
            "run": {"effort": "hours", "folder": str(tmp_path / "run")},
            "task": section_of(kind, tmp_path),
            "predecessor": {"path": str(model), "training": {"max_steps": 20, "learning_rate": 5e-3}},
            "plan": {"successors": 2, "solving": {"tokens": 200}},
            "training": {"max_length": 16, "batch_size": 8, "max_steps": 3},
            "evaluation": {"estimate": False, "latency": False, "ignore_guards": ["majority"]},
        }
        return compress(validate_config(config), Console(quiet=True))

    return search


@pytest.mark.parametrize("kind", ["tokens", "answers", "ranking", "embedding"])
def test_hours_search_methods_and_plans_and_choose_on_examples_kept_out(kind, search):
    record = search(kind)
    effort = record["effort"]
    offered = {"replacing", "kd"} if kind == "embedding" else {"replacing", "replacing with logits", "kd"}
    assert {trial["method"] for trial in effort["trials"]} == offered
    assert len(effort["plans"]) > 1
    assert f"the best of {len(offered)} settings" in effort["why"]
    last = max((trial for trial in effort["trials"] if trial["steps"] == 3), key=lambda trial: trial["score"])
    assert effort["chosen"]["method"] == last["method"]
    stage = list(record["stages"].values())[-1]
    kept = [
        entry["eval_score"]
        for entry in stage["history"]
        if "eval_score" in entry and entry["step"] == stage["best_step"]
    ]
    assert last["score"] in kept
    assert record["task"]["choosing"] > 0
    assert 0 <= record["successor"]["score"] <= 1
