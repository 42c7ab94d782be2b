"""A real process that is told to stop in the middle of its training."""

import re
import signal
import subprocess
import sys


def test_a_run_that_is_told_to_stop_says_how_to_go_on_and_then_ends_as_one_left_alone(
    command, recipe, tiny_expert_folder, tmp_path
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
            process.send_signal(signal.SIGTERM)
            break
    _, errors = process.communicate()
    said = re.fullmatch(
        r"plankwise: stopped by SIGTERM after step (\d+) of 40; the same command goes on from there\n", errors
    )
    assert said, errors
    assert process.returncode == 128 + signal.SIGTERM
    assert 5 <= int(said[1]) < 40
    assert not (tmp_path / "stopped" / "record.json").exists()

    resumed = command(*stopped)
    assert resumed.code == 0, resumed.err
    steps = [int(step) for step in re.findall(r"step (\d+)/40", resumed.out)]
    assert steps == [step for step in range(5, 45, 5) if step > int(said[1])]
    assert command("compress", recipe, *keys, f"run.folder={tmp_path / 'whole'}").code == 0
    one, other = (tmp_path / name / "successor" / "model.safetensors" for name in ("stopped", "whole"))
    assert one.read_bytes() == other.read_bytes()
