"""A grid on a tiny encoder: what its cells share, what it skips, resumes, refuses and survives."""

import io
import json
import tomllib

import numpy as np
import pytest
from rich.console import Console
from transformers import AutoModelForSequenceClassification

from plankwise.comparison import grid
from plankwise.comparison.grid import Variant, run_grid
from plankwise.core.plan import Plan
from plankwise.errors import ConfigError, PlanError, RunError
from plankwise.methods._job import Outcome
from plankwise.training.stage import StageResult
from plankwise.training.trainer import StageTrainer

QUIET = Console(quiet=True)
CUT, OURS = Variant("cut", ("method.name=finetune",)), Variant("ours", ("method.name=replacing",))
KD = Variant("kd", ("method.name=kd",))


def figures(cells):
    """All of the cells but the time they took."""
    return [
        {**cell.to_json(), "seconds": 0, "outputs": {k: v.tolist() for k, v in cell.outputs.items()}} for cell in cells
    ]


@pytest.fixture(scope="module")
def finished(trained, tmp_path_factory):
    """Two rows, two seeds, nothing stopped."""
    folder = tmp_path_factory.mktemp("grid")
    (task,) = run_grid([trained], [CUT, OURS], [0, 1], folder, QUIET)
    return task, folder / "films"


@pytest.fixture
def instant(monkeypatch, trained, tiny, tmp_path):
    """Cells without training: seed 1's successor is the predecessor, the others' an untrained model; counts the calls."""
    untrained = str(tiny.save_bert(tmp_path / "untrained", names=("negative", "positive")))
    calls = []

    def train(config, ground, console):
        calls.append((config.run.folder.split("/")[-2], config.run.seed))
        path = ground.path if config.run.seed == 1 else untrained
        stage = StageResult("x", 4, 4, 60.0, 1.0, 4, 0.5)
        successor = AutoModelForSequenceClassification.from_pretrained(path)
        return Outcome(successor, Plan(()), stage, {"x": stage}, skipped_steps=1, notes={"remark": 7})

    monkeypatch.setattr(grid, "train_successor", train)
    return calls


def test_every_row_has_every_seed_and_scores_what_its_outputs_score(finished):
    task, _ = finished
    assert task.name == "films"
    assert [(cell.label, cell.seed) for cell in task.cells] == [("cut", 0), ("ours", 0), ("cut", 1), ("ours", 1)]
    for cell in task.cells:
        assert task.scorer.score_outputs(cell.outputs) == {**cell.metrics, "score": cell.score}
        assert (cell.steps, cell.failure) == (4, None)
        assert cell.parameters < task.predecessor["parameters"]
    assert task.predecessor["score"] > 0.9
    assert task.predecessor["seconds"] is None


def test_a_cells_config_is_the_recipes_with_its_methods_defaults_its_seed_and_the_same_data(finished, trained):
    task, folder = finished
    configs = {path.parent: tomllib.loads(path.read_text()) for path in folder.glob("*/seed-*/config.toml")}
    assert len(configs) == 4
    for path, config in configs.items():
        assert config["run"]["seed"] == int(path.name.removeprefix("seed-"))
        assert config["run"]["data_seed"] == 0
        assert config["task"]["train"] == trained["task"]["train"]
        assert config["training"]["max_steps"] == 4
        assert config["training"]["learning_rate"] == {"cut": 1e-4, "ours": 2e-4}[path.parent.name]
    assert task.own_budget == frozenset()


def test_a_finished_cell_leaves_no_checkpoint_and_one_successor_a_row_is_kept(finished):
    _, folder = finished
    assert not list(folder.glob("*/seed-*/checkpoints"))
    assert {path.parent.parent.name for path in folder.glob("*/seed-*/successor")} == {"cut", "ours"}
    assert len(list(folder.glob("*/seed-*/successor"))) == 2


def test_finished_cells_and_latencies_are_taken_from_the_folder(finished, trained, monkeypatch):
    task, folder = finished
    monkeypatch.setattr(grid, "train_successor", None)
    monkeypatch.setattr(grid, "measure_latency", None)
    console = Console(file=io.StringIO(), width=200)
    (again,) = run_grid([trained], [CUT, OURS], [0, 1], folder.parent, console)
    assert figures(again.cells) == figures(task.cells)
    assert (again.latency, again.latency_batch) == (task.latency, 2)
    assert again.latency.keys() == {"cut", "ours"}
    assert "4 of 4 cells are finished already" in console.file.getvalue()


@pytest.mark.parametrize("stop_at", [4, 6])
def test_a_grid_stopped_between_or_within_cells_ends_with_the_very_cells_of_one_left_alone(
    finished, trained, stop_at, monkeypatch, tmp_path
):
    task, _ = finished
    steps = []
    step = StageTrainer.training_step

    def counted(self, *args, **kwargs):
        if len(steps) == stop_at:
            raise KeyboardInterrupt
        steps.append(1)
        return step(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(StageTrainer, "training_step", counted)
        with pytest.raises(KeyboardInterrupt):
            run_grid([trained], [CUT, OURS], [0, 1], tmp_path, QUIET)
    later = []
    monkeypatch.setattr(StageTrainer, "training_step", lambda *a, **k: (later.append(1), step(*a, **k))[1])
    (resumed,) = run_grid([trained], [CUT, OURS], [0, 1], tmp_path, QUIET)
    assert figures(resumed.cells) == figures(task.cells)
    assert len(later) == 16 - stop_at  # checkpoints stand at every step
    kept = [sorted(str(p.relative_to(f)) for p in f.rglob("*")) for f in (tmp_path / "films", finished[1])]
    assert kept[0] == kept[1]


def test_all_methods_see_the_same_batches_for_a_seed_and_other_ones_for_another(trained, monkeypatch, tmp_path):
    seen = {}
    step = StageTrainer.training_step

    def recorded(self, model, inputs, *args, **kwargs):
        key = self.folder.parts[-4:-2]
        seen.setdefault(key, []).append(inputs["input_ids"].tolist())
        return step(self, model, inputs, *args, **kwargs)

    monkeypatch.setattr(StageTrainer, "training_step", recorded)
    recipe = {**trained, "evaluation": {"latency": False}}
    run_grid([recipe], [CUT, OURS, KD], [3, 4], tmp_path, QUIET)
    three, four = ([seen[label, f"seed-{seed}"] for label in ("cut", "ours", "kd")] for seed in (3, 4))
    assert three[0] == three[1] == three[2]
    assert four[0] == four[1] == four[2]
    assert three[0] != four[0]
    assert len(three[0]) == 4


def test_the_predecessor_is_trained_once_for_all_calls(trained, tiny_model_folder, instant, monkeypatch, tmp_path):
    training = {"epochs": 6, "learning_rate": 3e-3, "batch_size": 8}
    recipe = {**trained, "predecessor": {"path": str(tiny_model_folder), "training": training}}
    (before,) = run_grid([recipe], [CUT], [1], tmp_path, QUIET)
    monkeypatch.setattr(StageTrainer, "training_step", None)
    (after,) = run_grid([recipe], [CUT, OURS], [1], tmp_path, QUIET)
    assert before.predecessor["path"] == str(tmp_path / "films" / "predecessor-run" / "predecessor")
    assert before.predecessor["seconds"] > 0
    assert before.predecessor["score"] == after.predecessor["score"] == after.cells[1].score
    assert instant == [("cut", 1), ("ours", 1)]


def test_the_best_seeds_successor_is_kept_and_a_tie_keeps_the_earlier(trained, instant, tmp_path):
    (task,) = run_grid([trained], [CUT], [0, 2], tmp_path, QUIET)
    assert task.cells[0].score == task.cells[1].score
    assert [path.parent.name for path in tmp_path.glob("films/cut/*/successor")] == ["seed-0"]
    run_grid([trained], [CUT], [0, 1, 2, 3], tmp_path, QUIET)
    assert [path.parent.name for path in tmp_path.glob("films/cut/*/successor")] == ["seed-1"]


def test_notes_and_skipped_steps_are_kept(trained, instant, tmp_path):
    for _ in range(2):
        (task,) = run_grid([trained], [CUT], [0], tmp_path, QUIET)
        assert (task.cells[0].notes, task.cells[0].skipped_steps) == ({"remark": 7}, 1)


def test_a_cell_that_fails_says_why_lets_the_others_run_and_is_tried_again(trained, instant, monkeypatch, tmp_path):
    train = grid.train_successor

    def failing(config, ground, console):
        if config.run.seed == 0:
            raise RunError("the loss turned nan") if "ours" in config.run.folder else ValueError("two\nlines")
        return train(config, ground, console)

    with monkeypatch.context() as patch:
        patch.setattr(grid, "train_successor", failing)
        (task,) = run_grid([trained], [CUT, OURS], [0, 1], tmp_path, QUIET)
    assert [cell.failure for cell in task.cells] == ["ValueError: two lines", "the loss turned nan", None, None]
    assert task.cells[0].score is None
    instant.clear()
    (task,) = run_grid([trained], [CUT, OURS], [0, 1], tmp_path, QUIET)
    assert [cell.failure for cell in task.cells] == [None] * 4
    assert instant == [("cut", 0), ("ours", 0)]


def test_the_line_before_a_cell_says_where_the_grid_is_and_how_long_it_will_take(trained, instant, tmp_path):
    console = Console(file=io.StringIO(), width=200)
    run_grid([trained], [CUT, OURS], [0, 1], tmp_path, console)
    lines = [line for line in console.file.getvalue().splitlines() if line.startswith("cell")]
    assert lines == [
        "cell 1 of 4: cut, seed 0, films",
        "cell 2 of 4: ours, seed 0, films; about 3 min left",
        "cell 3 of 4: cut, seed 1, films; about 2 min left",
        "cell 4 of 4: ours, seed 1, films; about 1 min left",
    ]


def test_a_new_row_or_one_made_otherwise_has_all_latencies_measured_anew(trained, instant, monkeypatch, tmp_path):
    measured = []

    def fake(models, *args, batch_sizes, **kwargs):
        measured.append(list(models))
        return {name: {str(size): {"p50_ms": 2.0 * size} for size in batch_sizes} for name in models}

    monkeypatch.setattr(grid, "measure_latency", fake)
    run_grid([trained], [CUT], [0], tmp_path, QUIET)
    (task,) = run_grid([trained], [CUT, OURS], [0], tmp_path, QUIET)
    run_grid([trained], [OURS], [0], tmp_path, QUIET)
    assert measured == [["predecessor", "cut"], ["predecessor", "cut", "ours"]]
    assert (task.latency, task.predecessor["latency_ms"]) == ({"cut": 4.0, "ours": 4.0}, 4.0)
    run_grid([trained], [Variant("new", ("plan.successors=1",))], [0], tmp_path, QUIET)
    for path in sorted((tmp_path / "films" / "new").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    run_grid([trained], [Variant("new", ("plan.successors=2",))], [0], tmp_path, QUIET)
    assert measured[2:] == [["predecessor", "new"]] * 2


def test_another_method_leaves_the_keys_of_the_recipes_own_behind(given, instant, tmp_path):
    given["method"] = {"name": "replacing", "schedule": {"kind": "constant", "rate": 0.5}}
    tuned = Variant("tuned", ("method.unfreeze=all",))
    (task,) = run_grid([given], [CUT, OURS, tuned], [0], tmp_path, QUIET)
    assert task.configs["cut"].method.name == "finetune"
    assert task.configs["ours"].method.schedule.rate == task.configs["tuned"].method.schedule.rate == 0.5
    assert task.configs["tuned"].method.unfreeze == "all"


def test_a_row_with_another_budget_is_known(trained, instant, tmp_path):
    (task,) = run_grid([trained], [CUT, Variant("long", ("training.max_steps=9",))], [0], tmp_path, QUIET)
    assert task.own_budget == {"long"}


def test_two_recipes_on_one_task_are_told_apart(trained, given, instant, tmp_path):
    given["run"]["name"] = "other"
    tasks = run_grid([trained, given], [CUT], [0], tmp_path, QUIET)
    assert [(task.name, task.recipe) for task in tasks] == [("films (films)", "films"), ("films (other)", "other")]
    with pytest.raises(ConfigError, match=r"^two recipes have the run.name 'films', which names their folder"):
        run_grid([trained, trained], [CUT], [0], tmp_path, QUIET)


@pytest.mark.parametrize(
    ("rows", "seeds", "error", "sentence"),
    [
        ([], [0], ConfigError, "there is no row to compare; give at least one method or variant"),
        ([CUT, CUT], [0], ConfigError, "row label 'cut' is given twice; every row needs a label of its own"),
        (
            [Variant("a/b")],
            [0],
            ConfigError,
            "row label 'a/b' cannot name a folder; use up to 64 letters, digits and .",
        ),
        ([Variant("..")], [0], ConfigError, "row label '..' cannot name a folder"),
        ([Variant("x" * 65)], [0], ConfigError, f"row label '{'x' * 65}' cannot name a folder"),
        ([Variant("predecessor")], [0], ConfigError, "row label 'predecessor' is taken by the comparison's own files"),
        ([CUT], [], ConfigError, "there is no seed; give at least one"),
        ([CUT], [1, 1], ConfigError, "seeds are [1, 1]; give whole numbers from 0 on, each once"),
        ([CUT], [-1], ConfigError, "seeds are [-1]; give whole numbers from 0 on, each once"),
        (
            [Variant("x", ("task.dev_share=0.5",))],
            [0],
            ConfigError,
            "row 'x' sets task.dev_share, but all rows share task, predecessor, run, evaluation and training.max_length; "
            "set it for the whole comparison",
        ),
        (
            [Variant("x", ("predecessor.path=y",))],
            [0],
            ConfigError,
            "row 'x' sets predecessor.path, but all rows share",
        ),
        ([Variant("x", ("run.seed=1",))], [0], ConfigError, "row 'x' sets run.seed, but all rows share"),
        ([Variant("x", ("evaluation.latency=false",))], [0], ConfigError, "row 'x' sets evaluation.latency, but"),
        ([Variant("x", ("training.max_length=8",))], [0], ConfigError, "row 'x' sets training.max_length, but"),
        ([Variant("x", ("training={max_length = 8}",))], [0], ConfigError, "row 'x' sets training.max_length, but"),
        ([Variant("x", ("plan",))], [0], ConfigError, "override 'plan' is not of the form key=value"),
        (
            [CUT, Variant("x", ("method.name=kdd",))],
            [0],
            ConfigError,
            "row 'x' of films: method.name is 'kdd'; there is no such method. Did you mean 'kd'?",
        ),
        (
            [CUT, Variant("x", ("plan.successors=3",))],
            [0],
            PlanError,
            "row 'x' of films: plan.successors is 3, but 4 blocks",
        ),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(trained, rows, seeds, error, sentence, tmp_path):
    with pytest.raises(error) as refused:
        run_grid([trained], rows, seeds, tmp_path / "new", QUIET)
    assert str(refused.value).startswith(sentence)
    assert not (tmp_path / "new").exists()


def test_bad_input_of_a_later_recipe_is_found_before_anything_is_trained(trained, given, tmp_path):
    with pytest.raises(ConfigError, match=r"^no recipe is given; give at least one TOML file"):
        run_grid([], [CUT], [0], tmp_path / "new", QUIET)
    for name, key, sentence in (
        ("second", "max_length", "training.max_length is 65"),
        (".x", "save_every", "run.name is"),
    ):
        changed = {**given, "run": {"name": name}, "training": {**given["training"], key: 65}}
        with pytest.raises(ConfigError, match=f"^{sentence}"):
            run_grid([trained, changed], [CUT], [0], tmp_path / "new", QUIET)
    assert not (tmp_path / "new").exists()


def test_a_folder_of_another_comparison_is_refused_with_the_difference(trained, given, instant, tmp_path):
    run_grid([trained], [CUT], [0], tmp_path, QUIET)
    given["training"]["max_steps"] = 5
    with pytest.raises(
        RunError, match=r"\(training.max_steps is 4 there, 5 here\); .* \(a comparison's folder is set by"
    ):
        run_grid([given], [CUT], [0], tmp_path, QUIET)
    other = Variant("cut", ("method.name=kd",))
    with pytest.raises(RunError, match=r"cut/seed-0 holds another run \(method.name is finetune there, kd here\)"):
        run_grid([trained], [other], [0], tmp_path, QUIET)


def test_a_damaged_cell_or_one_of_other_examples_is_refused(trained, instant, tmp_path):
    run_grid([trained], [CUT], [0], tmp_path, QUIET)
    folder = tmp_path / "films" / "cut" / "seed-0"
    data = (folder / "cell.json").read_text()
    np.savez(folder / "outputs.npz", dev_0=np.zeros((3, 2)))
    with pytest.raises(RunError, match=r"was measured on other dev examples \({'dev': 3} there, {'dev': 10} here\)"):
        run_grid([trained], [CUT], [0], tmp_path, QUIET)
    np.savez(folder / "outputs.npz", dev_0=np.array([{}]))
    with pytest.raises(
        RunError, match=r"seed-0 cannot be read \(.*pickle.*\); delete it and run the same command again"
    ):
        run_grid([trained], [CUT], [0], tmp_path, QUIET)
    (folder / "outputs.npz").unlink()
    with pytest.raises(RunError, match=r"seed-0 cannot be read"):
        run_grid([trained], [CUT], [0], tmp_path, QUIET)
    (folder / "cell.json").write_text(data[:20])
    with pytest.raises(RunError, match=r"cell.json cannot be read .* delete .*seed-0 and run the same command again"):
        run_grid([trained], [CUT], [0], tmp_path, QUIET)
    (folder / "cell.json").write_text(json.dumps({"outputs": [], "what": 1}))
    with pytest.raises(RunError, match=r"seed-0 cannot be read"):
        run_grid([trained], [CUT], [0], tmp_path, QUIET)
