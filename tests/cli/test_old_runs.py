"""Folders that the version before wrote: `floor` for the truncated model, and none of the keys that are newer."""

import json
import tomllib

import pytest
import tomli_w

NEWER = {"runtime", "fast_dropout", "options", "ignore_guards"}  # keys of the config
NEWER_TASK = {"kind", "shown", "facts"}  # of the record's task


def without_newer(tree):
    """A config as the version before wrote it."""
    if not isinstance(tree, dict):
        return tree
    names = {"truncated": "floor"}
    return {names.get(key, key): without_newer(value) for key, value in tree.items() if key not in NEWER}


def age(folder):
    """Makes of a finished run's folder what the version before would have left."""
    config = without_newer(tomllib.loads((folder / "config.toml").read_text("utf-8")))
    (folder / "config.toml").write_text(tomli_w.dumps(config), "utf-8")
    (folder / "truncated").rename(folder / "floor")
    record = json.loads((folder / "record.json").read_text("utf-8"))
    record["config"] = without_newer(record["config"])
    record["floor"] = {**record.pop("truncated"), "path": str(folder / "floor")}
    record["stages"]["floor"] = {**record["stages"].pop("truncated"), "name": "floor"}
    record["task"] = {key: value for key, value in record["task"].items() if key not in NEWER_TASK}
    for key in (
        "processes",
        "seconds_by",
        "ignored_guards",
        "speedups",
        "speedup_interval",
        "speedup_steady",
        "timing",
    ):
        del record[key]
    for stage in record["stages"].values():
        del stage["held_back"]
    for name in ("predecessor", "floor", "successor"):
        for key in (
            "device",
            "runtime",
            "beyond_constant",
            "held_back",
            "speedup_interval",
            "speedup_steady",
            "multiply_adds",
        ):
            record[name].pop(key, None)
    for slot in record["plan"]:
        slot.pop("options", None)
    (folder / "record.json").write_text(json.dumps(record), "utf-8")


@pytest.fixture
def arguments(recipe, tiny_expert_folder):
    keys = [f"predecessor.path={tiny_expert_folder}", "training.max_steps=1", "evaluation.estimate=false"]
    return ("compress", recipe, *keys)


def test_a_run_of_the_version_before_is_the_same_run_and_is_shown_analysed_and_reported(command, arguments, tmp_path):
    folder = tmp_path / "run"
    assert command(*arguments).code == 0
    age(folder)
    assert "truncated" not in (folder / "config.toml").read_text() + (folder / "record.json").read_text()

    shown = command(*arguments)
    assert shown.code == 0, shown.err
    assert "is finished already" in " ".join(shown.out.split())
    assert [line.split()[0] for line in shown.out.splitlines() if line.endswith("×")] == [
        "predecessor",
        "truncated",
        "successor",
    ]
    analysed = command("analyse", folder, "--only", "errors,inside")
    assert analysed.code == 0, analysed.err
    reported = command("report", folder)
    assert reported.code == 0, reported.err
    assert "truncated" in reported.out
    assert command("evaluate", folder / "floor").code == 0

    record = json.loads((folder / "record.json").read_text())
    assert record["truncated"]["path"] == str(folder / "floor")
    assert record["analysis"].keys() == {"errors", "inside"}


def test_a_run_of_the_version_before_is_another_run_for_another_config(command, arguments, tmp_path):
    assert command(*arguments).code == 0
    age(tmp_path / "run")
    assert "training.fast_dropout is auto there, False here" in command(*arguments, "training.fast_dropout=false").err
    other = command(*arguments, "evaluation.truncated=false")
    assert "evaluation.truncated is True there, False here" in other.err
    assert command(*arguments, "evaluation.floor=true").code == 0  # the key's earlier name
