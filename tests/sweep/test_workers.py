"""Several workers on one sweep, in processes of their own, one of which is killed."""

import json

import pytest

import workers
from databases import new_database

COUNT = 6


def run_together(recipe, expert, folder, storage, count):
    """Starts workers, kills the first in the middle of a trial, and gives the table when the others have ended."""
    arguments = [
        "sweep", str(recipe), f"predecessor.path={expert}", "training.max_steps=6", "training.evaluate_every=2",
        "--space", "training.learning_rate=1e-4..1e-2", "--sampler", "random", "--trials", str(COUNT),
        "--folder", str(folder), *storage,
    ]  # fmt: skip
    outputs = [folder.parent / f"worker-{number}.txt" for number in range(count)]
    first, *others = [workers.start(workers.run_command, arguments, str(output)) for output in outputs]
    assert workers.kill_when(first, lambda: "replacing: step 2/6" in _read(outputs[0]))
    assert [workers.wait(process) for process in others] == [0] * len(others), "\n".join(map(_read, outputs))
    table = json.loads((folder / "table.json").read_text("utf-8"))
    return table, [_read(output) for output in outputs]


def _read(path):
    return path.read_text("utf-8") if path.exists() else ""


def check_shared(table, told, folder):
    """Every trial has finished; all were begun once, but for the one of the killed worker, which went on elsewhere."""
    assert table["sweep"]["states"] == {"finished": COUNT}
    assert sorted(path.name for path in (folder / "trials").iterdir()) == [f"{number:04}" for number in range(COUNT)]
    rates = [row["values"]["training.learning_rate"] for row in table["rows"]]
    assert len(set(rates)) == COUNT
    begun = [
        [line for line in text.splitlines() if line.startswith("sweep: trial") and " of " in line] for text in told
    ]
    lost = begun[0][-1]
    assert sum(line == lost for lines in begun[1:] for line in lines) == 1
    counted = [line for lines in begun for line in lines]
    assert len(counted) == COUNT + 1
    assert len(set(counted)) == COUNT


@pytest.mark.soak  # it starts processes, and takes more than a moment
def test_workers_share_the_trials_and_take_over_that_of_one_that_is_killed(recipe, tiny_expert_folder, tmp_path):
    table, told = run_together(recipe, tiny_expert_folder, tmp_path / "sweep", [], 2)
    check_shared(table, told, tmp_path / "sweep")


def test_three_workers_share_the_trials_in_postgresql_when_one_is_killed(
    recipe, tiny_expert_folder, tmp_path, postgresql
):
    storage = ["--storage", new_database(postgresql)]
    table, told = run_together(recipe, tiny_expert_folder, tmp_path / "sweep", storage, 3)
    check_shared(table, told, tmp_path / "sweep")
    assert not (tmp_path / "sweep" / "sweep.db").exists()
