"""A run with early exits through the whole flow: resumed after a kill, scored, timed, shown, predicted with, looked into."""

import json
import subprocess
import sys

import pytest

from plankwise.report.remarks import exits_remark


@pytest.fixture
def keys(tiny_expert_folder, table_file):
    keys = [f"predecessor.path={tiny_expert_folder}", "plan.successors=4", "method.name=exits", "task.dev_share=0.5"]
    return [*keys, "evaluation.truncated=false", "training.batch_size=4"]


def test_a_run_says_where_texts_left_and_everything_downstream_takes_its_successor(
    command, recipe, keys, tmp_path, table_file
):
    done = command("compress", recipe, *keys, "method.patience=1")
    assert done.code == 0, done.err
    folder = tmp_path / "run"
    record = json.loads((folder / "record.json").read_text())
    exits = record["successor"]["exits"]
    assert (exits["patience"], len(exits["blocks"])) == (1, 4)
    assert sum(exits["blocks"]) == sum(record["task"]["dev"].values())
    assert exits["blocks"][0] == 0  # the first answer cannot be like one before it
    assert exits["mean_block"] == pytest.approx(
        sum(block * count for block, count in enumerate(exits["blocks"], 1)) / sum(exits["blocks"])
    )
    assert exits_remark(record["successor"]) in done.out
    assert "depend on the text" in done.out
    assert record["successor"]["multiply_adds"] is None
    assert record["timing"]["bound"]["successor"] > 1  # that of a text that leaves first
    assert "Texts leave it early" in (folder / "successor" / "README.md").read_text()
    assert "After which block dev examples left" in (folder / "report.html").read_text()

    scored = command("evaluate", folder / "successor", "--json")
    assert scored.code == 0, scored.err
    assert json.loads(scored.out)["score"] == record["successor"]["score"]
    exported = command("export", folder, "--precision", "int8", "--check", "--json")
    assert exported.code == 0, exported.err
    found = json.loads(exported.out)
    assert found["check"]["equal_answers"] >= 0.95  # solved heads have large weights, which int8 must not lose
    scored = command("evaluate", found["folder"], "--json")
    assert json.loads(scored.out)["score"] == found["check"]["score"]
    predicted = command(
        "predict", folder / "successor", "--table", table_file, "--text", "sentence", "--out", tmp_path / "out.csv"
    )
    assert predicted.code == 0, predicted.err
    looked = command("analyse", folder, "--only", "inside")
    assert looked.code == 0, looked.err
    assert "every text runs through all of the successor's blocks" in looked.out
    again = command("compress", recipe, f"predecessor.path={folder / 'successor'}", f"run.folder={tmp_path / 'again'}")
    assert again.code == 2
    assert "has early exits, and is not compressed a second time" in again.err


def test_a_run_that_is_killed_goes_on_to_the_very_weights_and_patience(command, recipe, keys, tmp_path):
    keys = [
        *keys,
        "training.max_steps=30",
        "training.evaluate_every=5",
        "evaluation.latency=false",
        "evaluation.estimate=false",
    ]
    killed = ["compress", str(recipe), *keys, f"run.folder={tmp_path / 'killed'}"]
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "plankwise", *killed], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    for line in process.stdout:
        if "step 10/30" in line:
            process.kill()
            break
    process.communicate()
    assert not (tmp_path / "killed" / "record.json").exists()
    resumed = command(*killed)
    assert resumed.code == 0, resumed.err
    assert "exits: going on at step" in resumed.out
    assert command("compress", recipe, *keys, f"run.folder={tmp_path / 'whole'}").code == 0
    one, other = (tmp_path / name / "successor" for name in ("killed", "whole"))
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    assert (
        json.loads((one / "config.json").read_text())["exits"]
        == json.loads((other / "config.json").read_text())["exits"]
    )
