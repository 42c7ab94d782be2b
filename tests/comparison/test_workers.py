"""Several workers on one comparison, in processes of their own, one of which is killed."""

import json

import numpy as np
from rich.console import Console

import workers
from databases import new_database
from plankwise.comparison.grid import Variant, run_grid
from plankwise.config import load_data

KEYS = ("training.max_steps=6", "training.evaluate_every=2", "training.save_every=2", "evaluation.latency=false")
LABELS = ["finetune", "kd"]


def read(path):
    return path.read_text("utf-8") if path.exists() else ""


def test_three_workers_share_the_cells_and_go_on_with_that_of_one_that_is_killed(
    recipe, tiny_expert_folder, tmp_path, postgresql
):
    keys = [f"predecessor.path={tiny_expert_folder}", *KEYS]
    folder, outputs = tmp_path / "together", [tmp_path / f"worker-{number}.txt" for number in range(3)]
    arguments = ["compare", str(recipe), *keys, "--methods", ",".join(LABELS), "--seeds", "2", "--folder", str(folder)]
    arguments += ["--workers", new_database(postgresql)]
    first, *others = [workers.start(workers.run_command, arguments, str(output)) for output in outputs]
    assert workers.kill_when(first, lambda: ": step 4/6" in read(outputs[0]))
    assert [workers.wait(process) for process in others] == [0, 0], "\n".join(map(read, outputs))

    told = [read(output).splitlines() for output in outputs]
    begun = [[line for line in lines if line.startswith("cell ")] for lines in told]
    lost = begun[0][-1]
    counted = [line for lines in begun for line in lines]
    assert sorted(counted) == sorted([*set(counted), lost])  # each once, but for that one
    assert len(set(counted)) == 4
    (heir,) = [lines for lines in told[1:] if lost in lines]
    after = heir[heir.index(lost) + 1 :]
    assert next(line for line in after if ": step " in line).split(": step ")[1][0] in "46"  # not from the start

    table = json.loads(read(folder / "table.json"))
    data = load_data(recipe, keys)
    rows = [Variant(name, (f"method.name={name}",)) for name in LABELS]
    (alone,) = run_grid([data], rows, [0, 1], tmp_path / "alone", Console(quiet=True))
    cells = table["tasks"][0]["cells"]
    assert [(cell["label"], cell["seed"], cell["score"]) for cell in cells] == [
        (cell.label, cell.seed, cell.score) for cell in alone.cells
    ]
    for cell in alone.cells:
        with np.load(next(folder.glob(f"*/{cell.label}/seed-{cell.seed}/outputs.npz"))) as outputs:
            assert all(np.array_equal(outputs[f"dev_{index}"], own) for index, own in enumerate(cell.outputs.values()))
    for label in LABELS:
        assert len(list(folder.glob(f"*/{label}/seed-*/successor"))) == 1
    assert not list(folder.rglob(".lock"))
