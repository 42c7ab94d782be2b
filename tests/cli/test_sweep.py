import json

import pytest

SPACE = ["--space", "training.learning_rate=1e-4..1e-2", "plan.init=lower,upper"]


@pytest.fixture
def sweep(command, recipe, tiny_expert_folder, tmp_path):
    """Runs a sweep of very short trials in the folder `sweep`, from a predecessor that knows its task."""
    quick = [f"predecessor.path={tiny_expert_folder}", "training.max_steps=2", "training.evaluate_every=1"]
    return lambda *arguments: command("sweep", recipe, *quick, *arguments, "--folder", tmp_path / "sweep")


@pytest.fixture
def table(tmp_path):
    return lambda: json.loads((tmp_path / "sweep" / "table.json").read_text("utf-8"))


def test_each_trial_is_an_ordinary_run_and_the_best_has_its_command(sweep, table, tmp_path, recipe):
    result = sweep(*SPACE, "--trials", "3", "--sampler", "random")
    assert result.code == 0, result.out + result.err
    about, rows = table()["sweep"], table()["rows"]
    assert about["states"] == {"finished": 3}
    assert sorted(row["trial"] for row in rows) == [0, 1, 2]
    assert rows[0]["trial"] == about["best"]
    assert rows[0]["score"] == max(row["score"] for row in rows)
    for row in rows:
        record = json.loads((tmp_path / "sweep" / "trials" / f"{row['trial']:04}" / "record.json").read_text("utf-8"))
        assert str(record["config"]["training"]["learning_rate"]) == row["values"]["training.learning_rate"]
        assert record["config"]["plan"]["init"] == row["values"]["plan.init"]
        kept = [entry for entry in record["stages"]["replacing"]["history"] if "eval_score" in entry]
        kept = next(entry for entry in kept if entry["step"] == record["stages"]["replacing"]["best_step"])
        assert (row["score"], row["reported"]) == (kept["eval_score_half_1"], kept["eval_score_half_2"])
    best = [f"{key}={text}" for key, text in rows[0]["values"].items()]
    assert about["command"].split()[:3] == ["plankwise", "compress", str(recipe)]
    assert about["command"].split()[-2:] == best
    page = (tmp_path / "sweep" / "report.html").read_text("utf-8")
    assert "Score by training.learning_rate" in page


def test_a_sweep_goes_on_with_more_trials_and_status_needs_no_space(sweep, table, tmp_path):
    assert sweep(*SPACE, "--trials", "1", "--sampler", "random").code == 0
    first = table()["rows"][0]
    assert sweep("--trials", "2").code == 0
    assert table()["sweep"]["sampler"] == "random"
    assert first in table()["rows"]
    before = (tmp_path / "sweep" / "table.json").read_bytes()
    result = sweep("--status", "--json")
    assert json.loads(result.out) == json.loads(before)


def test_a_grid_has_each_point_once_and_a_map_on_its_page(sweep, table, tmp_path):
    space = ["--space", "plan.init=lower,upper", "training.learning_rate=1e-3,2e-3"]
    assert sweep(*space, "--sampler", "grid").code == 0
    points = {tuple(row["values"].values()) for row in table()["rows"]}
    assert points == {("lower", "1e-3"), ("lower", "2e-3"), ("upper", "1e-3"), ("upper", "2e-3")}
    assert len(table()["rows"]) == 4
    assert "plan.init and training.learning_rate" in (tmp_path / "sweep" / "report.html").read_text("utf-8")


def test_bad_trials_are_pruned_and_have_no_checkpoints(sweep, table, tmp_path, monkeypatch):
    import optuna

    monkeypatch.setattr(optuna.Trial, "should_prune", lambda trial: trial.number == 1)
    result = sweep(*SPACE, "--trials", "2", "--prune")
    assert table()["sweep"]["states"] == {"finished": 1, "pruned": 1}
    assert "sweep: trial 1: pruned at step 1 of 2 of replacing" in result.out
    assert not (tmp_path / "sweep" / "trials" / "0001" / "checkpoints").exists()


def test_a_trial_that_fails_is_told_with_its_reason_and_the_others_go_on(sweep, table):
    result = sweep("training.max_steps=3", "--space", "training.learning_rate=1e38,1e-3", "--sampler", "grid")
    assert result.code == 0, result.out + result.err
    assert table()["sweep"]["states"] == {"finished": 1, "failed": 1}
    failed = table()["rows"][1]
    assert failed["trial"] == 0
    assert "not finite" in failed["failure"] or "not a number" in failed["failure"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--space", "plan.int=lower"], "did you mean"),
        (["--space", "plan.successors=2,3"], "--space plan.successors=3: plan.successors is 3"),
        (["--space", "plan.init=lower,uper"], "--space plan.init=uper: "),
        (["--trials", "2"], "--space is missing"),
        ([*SPACE, "--trials", "0"], "--trials is 0; give 1 or more"),
        ([*SPACE, "--sampler", "grid"], "--sampler is grid, which needs values"),
        (["--status"], "holds no sweep"),
        ([*SPACE, "--storage", "nosuch://me:secret@host/x"], "is not the URL of a database"),
    ],
)
def test_mistakes_are_one_sentence_and_nothing_is_trained(sweep, tmp_path, arguments, told):
    result = sweep(*arguments)
    assert result.code == 2
    assert told.lower() in result.err.lower()
    assert result.err.count("\n") == 1
    assert not (tmp_path / "sweep" / "trials").exists()


def test_another_sweep_in_the_same_folder_is_refused_with_the_difference(sweep):
    assert sweep(*SPACE, "--trials", "1").code == 0
    result = sweep("training.weight_decay=0.1", "--trials", "1")
    assert result.code == 2
    assert "holds another sweep (training.weight_decay is 0.0 there, 0.1 here)" in result.err
