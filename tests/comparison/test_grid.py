"""A grid on a tiny encoder: what its cells share, what it skips and resumes, and what it survives."""

import io
import json
import shutil
import signal
import tomllib

import numpy as np
import pytest
from rich.console import Console

from plankwise.comparison.grid import Variant, reason, run_grid
from plankwise.comparison.tables import tabulate
from plankwise.config import validate_config
from plankwise.errors import ConfigError, RunError
from plankwise.run.sharing import make_predecessor, open_inputs
from plankwise.training import stage
from plankwise.training.interruption import InterruptedRunError

QUIET = Console(quiet=True)
CUT, OURS = Variant("cut", ("method.name=finetune",)), Variant("ours", ("method.name=replacing",))
KD = Variant("kd", ("method.name=kd",))


def figures(cells):
    """All of the cells but the time they took."""
    return [
        {**cell.to_json(), "seconds": 0, "outputs": {k: v.tolist() for k, v in cell.outputs.items()}} for cell in cells
    ]


def told():
    """A console that keeps what is printed."""
    return Console(file=io.StringIO(), width=200)


def lines(console, start):
    return [line for line in console.file.getvalue().splitlines() if line.startswith(start)]


@pytest.fixture(scope="module")
def timed(trained):
    """A recipe of three steps, each of them scored, with latencies."""
    training = {**trained["training"], "max_steps": 3, "evaluate_every": 1}
    return {**trained, "training": training, "evaluation": {**trained["evaluation"], "latency": True}}


@pytest.fixture(scope="module")
def finished(timed, tmp_path_factory):
    """Two rows, two seeds, nothing stopped."""
    folder = tmp_path_factory.mktemp("grid")
    console = told()
    (task,) = run_grid([timed], [CUT, OURS], [0, 1], folder, console)
    return task, folder / "films", console


def test_every_row_has_every_seed_and_scores_what_its_outputs_score(finished):
    task, _, _ = finished
    assert task.name == "films"
    assert [(cell.label, cell.seed) for cell in task.cells] == [("cut", 0), ("ours", 0), ("cut", 1), ("ours", 1)]
    for cell in task.cells:
        assert task.task.score_outputs(cell.outputs) == {**cell.metrics, "score": cell.score}
        assert (cell.steps, cell.failure) == (3, None)
        assert cell.parameters < task.predecessor["parameters"]
        assert cell.notes["init"] == {"cut": "lower", "ours": "solved"}[cell.label]
    assert task.predecessor["score"] > 0.9
    assert task.predecessor["seconds"] is None


def test_a_cells_config_is_the_recipes_with_its_methods_defaults_its_seed_and_the_same_data(finished, timed):
    task, folder, _ = finished
    configs = {path.parent: tomllib.loads(path.read_text()) for path in folder.glob("*/seed-*/config.toml")}
    assert len(configs) == 4
    for path, config in configs.items():
        assert config["run"]["seed"] == int(path.name.removeprefix("seed-"))
        assert config["run"]["data_seed"] == 0
        assert config["task"]["train"] == timed["task"]["train"]
        assert config["training"]["max_steps"] == 3
        assert config["training"]["learning_rate"] == {"cut": 1e-4, "ours": 1.5e-4}[path.parent.name]
    assert task.own_budget == frozenset()


def test_a_finished_cell_leaves_no_checkpoint_and_one_successor_a_row_is_kept(finished):
    _, folder, _ = finished
    assert not list(folder.glob("*/seed-*/checkpoints"))
    assert {path.parent.parent.name for path in folder.glob("*/seed-*/successor")} == {"cut", "ours"}
    assert len(list(folder.glob("*/seed-*/successor"))) == 2


def test_the_line_before_a_cell_says_where_the_grid_is_and_how_long_it_will_take(finished):
    _, _, console = finished
    assert lines(console, "cell") == [
        "cell 1 of 4: cut, seed 0, films",
        "cell 2 of 4: ours, seed 0, films; less than a minute left",
        "cell 3 of 4: cut, seed 1, films; less than a minute left",
        "cell 4 of 4: ours, seed 1, films; less than a minute left",
    ]


def test_finished_cells_and_latencies_are_taken_from_the_folder(finished, timed):
    task, folder, _ = finished
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    console = told()
    (again,) = run_grid([timed], [CUT, OURS], [0, 1], folder.parent, console)
    assert figures(again.cells) == figures(task.cells)
    assert (again.latency, again.latency_batch) == (task.latency, 2)
    assert (again.speedups, again.timing) == (task.speedups, task.timing)
    assert again.speedups.keys() == again.timing["bound"].keys() == {"cut", "ours"}
    assert again.latency.keys() == {"cut", "ours"}
    assert "4 of 4 cells are finished already" in console.file.getvalue()
    after = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    changed = {path.relative_to(folder) for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert {path.parts[0] for path in changed} <= {"predecessor-run"}  # which is claimed at each call


def test_latencies_that_an_earlier_version_measured_are_taken_too(finished, timed):
    _, folder, _ = finished
    known = json.loads((folder / "latency.json").read_text())
    for made in known["made_by"].values():
        made["evaluation"]["floor"] = made["evaluation"].pop("truncated")
        del made["evaluation"]["runtime"], made["plan"]["options"]
    del known["speedups"], known["timing"]
    (folder / "latency.json").write_text(json.dumps(known))
    console = told()
    (task,) = run_grid([timed], [CUT, OURS], [0, 1], folder.parent, console)
    assert not lines(console, "latency")
    assert task.speedups == {}
    before, cut, _ = tabulate(task).rows
    assert (cut.faster.ratio, cut.faster.interval) == (before.latency_ms / cut.latency_ms, None)


@pytest.mark.parametrize(
    ("stop_at", "left"),
    [
        ("cell 2 of 2", [1, 2, 3]),
        ("replacing: step 1/3", [3]),  # the step that is under way is finished
        ("truncated: step 3/3", [1, 2, 3]),
    ],
    ids=["between cells", "within a cell", "at the end of a cell's training"],
)
def test_a_stopped_grid_ends_with_the_very_cells_of_one_left_alone(finished, timed, stop_at, left, stopping, tmp_path):
    task, _, _ = finished
    recipe = {**timed, "evaluation": {"latency": False}}
    with pytest.raises(InterruptedRunError, match=r"^stopped by SIGTERM.*; the same command goes on from") as stopped:
        run_grid([recipe], [CUT, OURS], [0], tmp_path, stopping(stop_at))
    assert stopped.value.exit_code == 128 + signal.SIGTERM
    console = told()
    (resumed,) = run_grid([recipe], [CUT, OURS], [0], tmp_path, console)
    assert figures(resumed.cells) == figures(task.cells[:2])
    steps = [line.split("step ")[1][0] for line in console.file.getvalue().splitlines() if ": step " in line]
    assert steps == [str(step) for step in left]  # none of them twice
    kept = {path.name for path in tmp_path.glob("films/*/seed-0/*")}
    assert kept == {"cell.json", "config.toml", "outputs.npz", "successor"}


def test_all_rows_draw_the_same_batches_for_a_seed_and_other_ones_for_another(trained, tmp_path):
    ready = make_predecessor(open_inputs(validate_config(trained), QUIET))

    def batches(method, seed):
        config = validate_config(
            {**trained, "method": {"name": method}, "run": {"seed": seed, "folder": str(tmp_path)}}
        )
        return list(ready.at(config).stage(method, config.training).batches())

    three, four = ([batches(method, seed) for method in ("finetune", "replacing", "kd")] for seed in (3, 4))
    assert three[0] == three[1] == three[2]
    assert four[0] == four[1] == four[2]
    assert three[0] != four[0]


def test_the_predecessor_is_trained_once_for_all_calls(trained, tiny_model_folder, tmp_path):
    training = {"epochs": 6, "learning_rate": 3e-3, "batch_size": 8}
    recipe = {**trained, "predecessor": {"path": str(tiny_model_folder), "training": training}}
    (before,) = run_grid([recipe], [CUT], [1], tmp_path, QUIET)
    console = told()
    (after,) = run_grid([recipe], [CUT, OURS], [1], tmp_path, console)
    assert before.predecessor["path"] == str(tmp_path / "films" / "predecessor-run" / "predecessor")
    assert before.predecessor["seconds"] > 0
    assert before.predecessor["score"] == after.predecessor["score"]
    assert not lines(console, "predecessor: step")
    assert lines(console, "cell") == ["cell 2 of 2: ours, seed 1, films; less than a minute left"]


def test_what_the_predecessor_says_is_asked_once_and_counts_for_every_cell(trained, tmp_path, monkeypatch):
    asked, compute = [], stage.compute_targets
    monkeypatch.setattr(stage, "compute_targets", lambda *given: asked.append(1) or compute(*given))
    both = Variant("both", ("method.name=replacing", "method.alpha=0.5"))
    (task,) = run_grid([trained], [CUT, KD, both], [0, 1], tmp_path / "all", QUIET)
    assert len(asked) == 1
    spent = {cell.notes["targets"]["seconds"] for cell in task.cells if cell.label != "cut"}
    assert len(spent) == 1  # in every cell's seconds, as if it had asked alone
    (alone,) = run_grid([trained], [KD], [1], tmp_path / "alone", QUIET)
    (shared,) = (cell for cell in task.cells if (cell.label, cell.seed) == ("kd", 1))
    assert np.array_equal(shared.outputs["dev"], alone.cells[0].outputs["dev"])


def test_a_row_whose_copies_cannot_be_made_is_refused_before_anything_is_trained(trained, tmp_path):
    copies = Variant("copies", ("method.name=tinybert", "method.augmentation.copies=2"))
    with pytest.raises(
        ConfigError, match=r"row 'copies' of films: method\.augmentation\.copies is above 0, which needs a masked"
    ):
        run_grid([trained], [CUT, copies], [0], tmp_path, QUIET)
    assert not list(tmp_path.rglob("cell.json"))


def test_a_cell_that_fails_says_why_lets_the_others_run_and_is_tried_again(trained, tmp_path):
    wild = Variant("wild", ("method.name=finetune", "training.learning_rate=1e38", "training.max_steps=3"))
    run_grid([trained], [CUT], [0], tmp_path, QUIET)
    folder = tmp_path / "films" / "cut" / "seed-0"
    (folder / "cell.json").unlink()
    (folder / "checkpoints").write_text("not a folder")
    (task,) = run_grid([trained], [CUT, wild, OURS], [0], tmp_path, QUIET)
    cut, wild_one, ours = task.cells
    assert cut.failure.startswith("NotADirectoryError: ")
    assert wild_one.failure.startswith("the loss turned nan at step 2")
    assert (cut.score, wild_one.score, ours.failure) == (None, None, None)
    (folder / "checkpoints").unlink()
    console = told()
    (task,) = run_grid([trained], [CUT, OURS], [0], tmp_path, console)
    assert [cell.failure for cell in task.cells] == [None, None]
    assert [line[:16] for line in lines(console, "cell")] == ["cell 1 of 2: cut"]


def test_a_reason_is_one_line_that_names_an_error_that_is_not_ours():
    assert reason(RunError("the loss\nis nan")) == "the loss is nan"
    assert reason(ValueError("two\nlines")) == "ValueError: two lines"
    assert reason(KeyError()) == "KeyError"


def test_a_new_row_or_one_made_otherwise_has_all_latencies_measured_anew(timed, tmp_path):
    recipe = {**timed, "training": {**timed["training"], "max_steps": 1}}

    def run(*rows):
        (task,) = run_grid([recipe], rows, [0], tmp_path, QUIET)
        return task, json.loads((tmp_path / "films" / "latency.json").read_text())["latency"]

    _, one = run(CUT)
    task, two = run(CUT, OURS)
    _, three = run(OURS)
    assert (list(one), list(two)) == (["predecessor", "cut"], ["predecessor", "cut", "ours"])
    assert three == two
    assert task.latency == {label: two[label]["2"]["p50_ms"] for label in ("cut", "ours")}
    assert task.predecessor["latency_ms"] == two["predecessor"]["2"]["p50_ms"]
    shutil.rmtree(tmp_path / "films" / "cut")
    _, four = run(Variant("cut", ("method.name=finetune", "plan.successors=1")))
    assert list(four) == ["predecessor", "cut"]


def test_another_method_leaves_the_keys_of_the_recipes_own_behind_and_another_budget_is_known(given, tmp_path):
    given["method"] = {"name": "replacing", "schedule": {"kind": "constant", "rate": 0.5}}
    tuned = Variant("tuned", ("method.unfreeze=all", "training.max_steps=2"))
    (task,) = run_grid([given], [CUT, OURS, tuned], [0], tmp_path, QUIET)
    assert task.configs["cut"].method.name == "finetune"
    assert task.configs["ours"].method.schedule.rate == task.configs["tuned"].method.schedule.rate == 0.5
    assert task.configs["tuned"].method.unfreeze == "all"
    assert task.own_budget == {"tuned"}


def test_two_recipes_on_one_task_are_told_apart(trained, given, tmp_path):
    given["run"]["name"] = "other"
    tasks = run_grid([trained, given], [CUT], [0], tmp_path, QUIET)
    assert [(task.name, task.recipe) for task in tasks] == [("films (films)", "films"), ("films (other)", "other")]
    with pytest.raises(ConfigError, match=r"^two recipes have the run.name 'films', which names their folder"):
        run_grid([trained, trained], [CUT], [0], tmp_path, QUIET)


def test_a_folder_of_another_comparison_is_refused_with_the_difference(finished, timed):
    _, folder, _ = finished
    longer = {**timed, "training": {**timed["training"], "max_steps": 5}}
    with pytest.raises(
        RunError, match=r"\(training.max_steps is 3 there, 5 here\); .* \(a comparison's folder is set by"
    ):
        run_grid([longer], [CUT], [0], folder.parent, QUIET)
    other = Variant("cut", ("method.name=kd",))
    with pytest.raises(RunError, match=r"cut/seed-0 holds another run \(method.name is finetune there, kd here\)"):
        run_grid([timed], [other], [0], folder.parent, QUIET)


def test_a_damaged_cell_or_one_of_other_examples_is_refused(trained, tmp_path):
    run_grid([trained], [CUT], [0], tmp_path, QUIET)
    folder = tmp_path / "films" / "cut" / "seed-0"
    np.savez(folder / "outputs.npz", dev_0=np.zeros((3, 2)))
    with pytest.raises(RunError, match=r"was measured on other dev examples \({'dev': 3} there, {'dev': 10} here\)"):
        run_grid([trained], [CUT], [0], tmp_path, QUIET)


def test_the_config_of_a_comparison_of_an_earlier_version_is_the_same_comparison(trained, tmp_path):
    run_grid([trained], [CUT], [0], tmp_path, QUIET)
    for path in tmp_path.rglob("config.toml"):
        text = path.read_text().replace("truncated = ", "floor = ").replace('runtime = "torch"\n', "")
        path.write_text(text.replace('fast_dropout = "auto"\n', "").replace("[plan.options]\n", ""))
        assert "floor" in path.read_text()
    console = told()
    run_grid([trained], [CUT], [0], tmp_path, console)
    assert "1 of 1 cells are finished already" in console.file.getvalue()
