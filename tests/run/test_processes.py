"""A run by two real processes (gloo) against one: the same successor, each file written once, killed and resumed; and the lock."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from workers import compress as compress_recipe
from workers import free_port, join_ranks, kill_when, last_step, start, wait

MODELS = ("predecessor", "successor", "truncated")


@pytest.fixture
def recipe(tmp_path, tiny):
    """Without dropout, whose masks every rank draws for its own examples."""
    encoder = tiny.save_bert(tmp_path / "encoder", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    path = tmp_path / "tiny.toml"
    path.write_text(
        f"""
        [run]
        folder = {json.dumps(str(tmp_path / "one"))}
        [predecessor]
        path = {json.dumps(str(encoder))}
        training = {{ epochs = 6, learning_rate = 3e-3, batch_size = 8 }}
        [task]
        name = "table"
        train = {json.dumps(str(tiny.save_table(tmp_path / "reviews.csv")))}
        text = "sentence"
        label = "label"
        [plan]
        successors = 2
        init = "fitted"
        [method]
        alpha = 0.5
        [training]
        epochs = 3
        batch_size = 8
        max_length = 16
        learning_rate = 1e-3
        save_every = 2
        [evaluation]
        latency = false
        estimate = false
        """,
        "utf-8",
    )
    return str(path)


def halves(folder):
    """Two processes with half of the batch each."""
    return [f"run.folder={folder}", "training.batch_size=4", "predecessor.training.batch_size=4"]


def weights(folder):
    return {name: load_file(folder / name / "model.safetensors") for name in MODELS}


def assert_close(found, expected):
    for name in MODELS:
        for key, value in expected[name].items():
            # A bias of all keys changes no attention: its gradient is rounding alone, which Adam makes whole steps of.
            if not key.endswith("key.bias"):
                torch.testing.assert_close(found[name][key], value, atol=2e-4, rtol=0)


def test_two_processes_train_the_same_successor_as_one_also_if_all_are_killed_on_the_way(recipe, tmp_path):
    one = start(compress_recipe, recipe, [])
    printed = str(tmp_path / "printed.txt")
    both = join_ranks(compress_recipe, 2, free_port(), recipe, halves(tmp_path / "two"), printed)
    assert [wait(process) for process in both] == [0, 0]
    assert wait(one) == 0
    whole, shared = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert_close(shared, whole)
    records = [json.loads((tmp_path / name / "record.json").read_text()) for name in ("one", "two")]
    assert [record["processes"] for record in records] == [1, 2]
    steps, shared_steps = ([stage["steps"] for stage in record["stages"].values()] for record in records)
    assert steps == shared_steps
    assert records[0]["successor"]["score"] == records[1]["successor"]["score"]
    names = {path.name for path in (tmp_path / "two").iterdir()}
    assert names == {"config.toml", "log.txt", "record.json", "report.html", *MODELS}
    lines = (tmp_path / "printed.txt").read_text().splitlines()
    assert len([line for line in lines if line.startswith("report:")]) == 1

    both = join_ranks(compress_recipe, 2, free_port(), recipe, halves(tmp_path / "killed"))
    stage = tmp_path / "killed" / "checkpoints" / "replacing"
    assert kill_when(both[0], lambda: last_step(stage) >= 4)
    os.kill(both[1].pid, signal.SIGKILL)
    both[1].join()
    both = join_ranks(compress_recipe, 2, free_port(), recipe, halves(tmp_path / "killed"))
    assert [wait(process) for process in both] == [0, 0]
    for name, expected in shared.items():
        found = load_file(tmp_path / "killed" / name / "model.safetensors")
        assert all(torch.equal(found[key], value) for key, value in expected.items()), name


def test_torchrun_starts_it_and_an_error_is_one_sentence(recipe, tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={free_port()}"]
    command += ["-m", "plankwise", "compress", recipe, f"run.folder={tmp_path / 'run'}", "plan.successors=3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode != 0
    assert "plankwise: plan.successors is 3, but 4 blocks" in done.stderr
    assert "plankwise/cli" not in done.stderr  # a sentence and no traceback; torchrun adds one of its own
    assert not (tmp_path / "run").exists()


def test_accelerate_launch_starts_it_on_cpus_with_the_same_recipe(recipe, tmp_path):
    config = tmp_path / "accelerate.yaml"
    lines = ["compute_environment: LOCAL_MACHINE", "distributed_type: MULTI_GPU", "mixed_precision: 'no'"]
    lines += [
        "num_processes: 2",
        "num_machines: 1",
        "machine_rank: 0",
        "use_cpu: false",
        f"main_process_port: {free_port()}",
    ]
    config.write_text("\n".join(lines), "utf-8")
    command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(config), "-m", "plankwise"]
    command += [
        "compress",
        recipe,
        f"run.folder={tmp_path / 'run'}",
        "training.max_steps=2",
        "evaluation.truncated=false",
    ]
    command += ["plan.init=lower", "predecessor.training.max_steps=2", 'evaluation.ignore_guards=["majority"]']
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "record.json").read_text())["processes"] == 2


def test_a_second_process_on_the_same_folder_is_refused_and_the_first_is_not_disturbed(recipe, tmp_path):
    first = start(compress_recipe, recipe, [])
    while first.is_alive() and not (tmp_path / "one" / "config.toml").exists():
        time.sleep(0.003)
    second = start(compress_recipe, recipe, [], str(tmp_path / "second.txt"))
    assert wait(second) == 2
    said = (tmp_path / "second.txt").read_text()
    assert f"is being written by process {first.pid} on " in said
    assert wait(first) == 0
    alone = start(compress_recipe, recipe, [f"run.folder={tmp_path / 'alone'}"])
    assert wait(alone) == 0
    found, expected = weights(tmp_path / "one"), weights(tmp_path / "alone")
    assert all(torch.equal(found[name][key], value) for name in MODELS for key, value in expected[name].items())
