import json
from types import SimpleNamespace

import numpy as np
import pytest

from plankwise.comparison.cells import GridCell, find_cell, keep_best, kept_successors, write_cell
from plankwise.errors import RunError

TASK = SimpleNamespace(dev={"dev": SimpleNamespace(lengths=[4, 5])})


@pytest.fixture
def finish(tmp_path):
    """Finishes the cell of one more seed of a row, whose folder is `row`."""

    def finish(seed, score):
        folder = tmp_path / "row" / f"seed-{seed}"
        (folder / "successor").mkdir(parents=True)
        cell = GridCell("row", seed, score, outputs={"dev": np.eye(2)})
        keep_best(folder, cell)
        write_cell(folder, cell)
        return folder

    return finish


def test_the_best_seeds_successor_is_kept_and_a_tie_keeps_the_earlier(finish, tmp_path):
    kept = []
    for seed, score in enumerate((0.5, 0.5, 0.75, 0.25, 0.75)):
        finish(seed, score)
        kept.append([path.parent.name for path in (tmp_path / "row").glob("*/successor")])
    assert kept == [["seed-0"], ["seed-0"], ["seed-2"], ["seed-2"], ["seed-2"]]


def test_the_successor_of_a_cell_that_was_never_finished_counts_for_nothing(finish, tmp_path):
    (tmp_path / "row" / "seed-7" / "successor").mkdir(parents=True)
    folder = finish(0, 0.25)
    assert kept_successors(tmp_path / "row") == [folder / "successor"]


def test_a_cell_is_read_back_as_it_was_and_its_checkpoints_go(tmp_path):
    cell = GridCell(
        "row", 3, 0.5, {"f1": 0.5}, 4, 1, 2.5, 100, {"remark": 7}, outputs={"dev": np.array([[0.1, 2], [3, 4]])}
    )
    (tmp_path / "checkpoints").mkdir()
    write_cell(tmp_path, cell)
    found = find_cell(tmp_path, TASK)
    assert found == cell
    assert np.array_equal(found.outputs["dev"], cell.outputs["dev"])
    assert not (tmp_path / "checkpoints").exists()


def test_a_cell_without_outputs_is_read_back(tmp_path):
    write_cell(tmp_path, GridCell("row", 0, 0.5))
    assert find_cell(tmp_path, TASK).outputs == {}


def test_a_folder_without_figures_holds_no_cell(tmp_path):
    assert find_cell(tmp_path, TASK) is None


def test_a_cell_of_other_examples_is_refused(finish):
    folder = finish(0, 0.5)
    np.savez(folder / "outputs.npz", dev_0=np.zeros((3, 2)))
    with pytest.raises(RunError, match=r"was measured on other dev examples \({'dev': 3} there, {'dev': 2} here\)"):
        find_cell(folder, TASK)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (
            lambda folder: np.savez(folder / "outputs.npz", dev_0=np.array([{}])),
            r"seed-0 cannot be read \(.*pickle.*\); delete it and run the same command again",
        ),
        (lambda folder: (folder / "outputs.npz").unlink(), r"seed-0 cannot be read"),
        (
            lambda folder: (folder / "cell.json").write_text('{"label": "r'),
            r"cell.json cannot be read .* delete .*seed-0 and run the same command again",
        ),
        (
            lambda folder: (folder / "cell.json").write_text(json.dumps({"outputs": [], "what": 1})),
            r"seed-0 cannot be read",
        ),
    ],
    ids=["pickled outputs", "no outputs", "cut short", "other keys"],
)
def test_a_damaged_cell_is_refused(finish, damage, sentence):
    folder = finish(0, 0.5)
    damage(folder)
    with pytest.raises(RunError, match=sentence):
        find_cell(folder, TASK)
