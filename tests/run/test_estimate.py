"""The estimate of a real run: beside what was measured, kept when the run is resumed, and of no influence on it."""

import io
import json
import tempfile

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from plankwise.config import load_config
from plankwise.run.compress import compress

QUIET = Console(quiet=True)
QUICK = ["training.max_steps=4", "training.batch_size=8"]


def test_a_run_has_the_same_weights_with_an_estimate_and_without(recipe, tmp_path):
    for name, estimate in (("with", "true"), ("without", "false")):
        overrides = [*QUICK, f"run.folder={tmp_path / name}", f"evaluation.estimate={estimate}"]
        record = compress(load_config(recipe, overrides), QUIET)
        assert ("estimate" in record) == (name == "with")
    for model in ("predecessor", "successor", "truncated"):
        one, two = (load_file(tmp_path / name / model / "model.safetensors") for name in ("with", "without"))
        assert all(torch.equal(one[key], two[key]) for key in two), model


def test_a_record_holds_every_phase_as_estimated_and_as_measured(recipe):
    record = compress(load_config(recipe, [*QUICK, "method.name=kd"]), QUIET)
    estimate = record["estimate"]
    assert list(estimate["phases"]) == [
        "predecessor",
        "solving",
        "targets",
        "kd",
        "truncated",
        "evaluations",
        "latency",
    ]
    assert all(phase["estimated"] > 0 and phase["measured"] > 0 for phase in estimate["phases"].values())
    assert estimate["phases"]["kd"]["measured"] == record["stages"]["kd"]["seconds"]
    assert estimate["phases"]["targets"]["measured"] == record["targets"]["seconds"]
    evaluated = [
        entry["eval_seconds"] for s in record["stages"].values() for entry in s["history"] if "eval_seconds" in entry
    ]
    assert estimate["phases"]["evaluations"]["measured"] > sum(evaluated) > 0
    measured = [phase["measured"] for phase in estimate["phases"].values()]
    assert estimate["seconds"]["measured"] == pytest.approx(sum(measured))


class Stopping(io.StringIO):
    """A terminal's output at which the user stops the run once replacing has begun."""

    def write(self, text):
        if text.startswith("replacing:"):
            raise KeyboardInterrupt
        return super().write(text)


def test_a_resumed_run_keeps_the_estimate_of_the_first_call(recipe, tmp_path):
    config = load_config(recipe, QUICK)
    with pytest.raises(KeyboardInterrupt):
        compress(config, Console(file=Stopping()))
    file = tmp_path / "run" / "checkpoints" / "estimate.json"
    first = json.loads(file.read_text("utf-8"))
    first["calibration_seconds"] = -1.0
    file.write_text(json.dumps(first), "utf-8")
    estimate = compress(config, QUIET)["estimate"]
    assert estimate["calibration_seconds"] == -1.0
    assert {name: phase["estimated"] for name, phase in estimate["phases"].items()} == {
        name: phase["estimated"] for name, phase in first["phases"].items()
    }


def test_a_run_whose_estimate_fails_says_so_and_goes_on(recipe, command, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    result = command("compress", recipe, "evaluation.truncated=false")
    assert result.code == 0, result.err
    assert "estimate: none could be made (FileNotFoundError: " in result.out
    assert "; the run goes on without" in result.out


def test_one_line_tells_the_estimate_before_training_begins(recipe, command):
    lines = command("compress", recipe, "evaluation.truncated=false").out.splitlines()
    told = next(index for index, line in enumerate(lines) if line.startswith("estimate: about "))
    assert lines[told].endswith(" MB at the peak")
    assert told < next(index for index, line in enumerate(lines) if line.startswith("predecessor: "))
