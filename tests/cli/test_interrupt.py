"""Real processes that are told to stop: one line, no traceback, and the same command goes on."""

import re
import shlex
import signal
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("number", "by"), [(signal.SIGINT, ""), (signal.SIGTERM, " by SIGTERM")])
def test_a_run_that_is_told_to_stop_says_how_to_go_on_and_then_ends_as_one_left_alone(
    command, recipe, tiny_expert_folder, tmp_path, number, by
):
    keys = [f"predecessor.path={tiny_expert_folder}", "training.max_steps=40", "training.evaluate_every=5"]
    keys += ["training.save_every=40"]  # but for what a stop saves
    keys += [f"evaluation.{key}=false" for key in ("truncated", "latency", "estimate")]
    stopped = ["compress", str(recipe), *keys, f"run.folder={tmp_path / 'stopped'}"]
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "plankwise", *stopped], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in process.stdout:
        if "step 5/40" in line:
            process.send_signal(number)
            break
    _, errors = process.communicate()
    said = re.fullmatch(
        rf"plankwise: stopped{by} at step (\d+) of 40; the same command goes on from there: plankwise (.*)\n", errors
    )
    assert said, errors
    assert shlex.split(said[2]) == stopped
    assert process.returncode == 128 + number
    assert 5 <= int(said[1]) < 40
    assert not (tmp_path / "stopped" / "record.json").exists()

    resumed = command(*stopped)
    assert resumed.code == 0, resumed.err
    assert f"replacing: going on at step {said[1]} of 40" in resumed.out
    steps = [int(step) for step in re.findall(r"step (\d+)/40", resumed.out)]
    assert steps == [step for step in range(5, 45, 5) if step > int(said[1])]
    assert command("compress", recipe, *keys, f"run.folder={tmp_path / 'whole'}").code == 0
    one, other = (tmp_path / name / "successor" / "model.safetensors" for name in ("stopped", "whole"))
    assert one.read_bytes() == other.read_bytes()


STOPPED_WHILE_LOADING = """
import signal, sys
from types import SimpleNamespace
import plankwise.kinds

def load():
    signal.raise_signal(signal.SIGINT)

entry = SimpleNamespace(name="slow", module="slow", load=load)
plankwise.kinds.entry_points = lambda group: [entry] if group == "plankwise.tasks" else []
sys.argv = ["plankwise", "evaluate", "model", "task.name=slow"]
from plankwise.cli import main
main()
"""
STOPPED_IN_A_DESTRUCTOR = STOPPED_WHILE_LOADING.replace(
    "def load():",
    "import time\n\nclass Gone:\n    def __del__(self):\n        signal.raise_signal(signal.SIGINT)\n\ndef load():",
).replace("    signal.raise_signal(signal.SIGINT)\n\nentry", "    Gone()\n    time.sleep(60)\n\nentry")


@pytest.mark.parametrize("program", [STOPPED_WHILE_LOADING, STOPPED_IN_A_DESTRUCTOR])
def test_ctrl_c_before_anything_is_done_is_one_line_without_a_traceback(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "plankwise: stopped\n")
