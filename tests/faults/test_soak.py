"""A long training holds no more at its end than at its beginning."""

import json
import statistics
import sys

import pytest

from workers import start, train_long, wait

STEPS = 2000


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="memory and open files are read from /proc")
def test_two_thousand_steps_hold_no_more_memory_files_or_checkpoints_than_a_few(tmp_path, record_property):
    assert wait(start(train_long, str(tmp_path), STEPS), seconds=1200) == 0
    found = json.loads((tmp_path / "held.json").read_text())
    held = found["held"]
    assert (found["steps"], len(held)) == (STEPS, STEPS // 20)
    early, late = (statistics.median(one["kb"] for one in part) for part in (held[10:30], held[-20:]))
    growth = late / early - 1
    record_property("cases", f"{STEPS} steps: memory {early / 1024:.0f} MB, then {late / 1024:.0f} MB ({growth:+.2%})")
    assert growth < 0.02
    assert len({one["files"] for one in held[1:]}) == 1
    assert max(one["checkpoints"] for one in held) == 2
    assert found["left"] == ["best.safetensors", "result.json"]
