"""Commands in a process that is not the first of those started together: it takes part, and rank 0 alone speaks and writes."""

import pytest
from rich.console import Console

from plankwise.context import Context


@pytest.fixture
def second(command, monkeypatch):
    """Runs a command as rank 1; gives its exit code after looking that nothing was printed."""

    def run(*arguments):
        with monkeypatch.context() as patch:
            patch.setenv("RANK", "1")
            result = command(*arguments)
        assert (result.out, result.err) == ("", "")
        return result.code

    return run


@pytest.fixture
def keys(tiny_expert_folder):
    """Keys for runs of one step."""
    given = [f"predecessor.path={tiny_expert_folder}", "training.max_steps=1", "predecessor.training.max_steps=1"]
    return given + [f"evaluation.{key}=false" for key in ("truncated", "latency", "estimate")]


def test_compress_prints_nothing_and_writes_no_page(second, recipe, keys, tmp_path):
    assert second("compress", recipe, *keys) == 0
    assert not (tmp_path / "run" / "report.html").exists()


def test_demo_prints_nothing_and_analyses_nothing(second, keys, table_file, tmp_path):
    keys += ["task.name=table", f"task.train={table_file}", "task.text=sentence", "task.label=label"]
    keys += ["plan.successors=2", "training.max_length=16", f"run.folder={tmp_path / 'run'}"]
    assert second("demo", *keys) == 0
    assert not (tmp_path / "run" / "report.html").exists()
    assert "analysis" not in (tmp_path / "run" / "record.json").read_text().partition('"config"')[0]


def test_finetune_prints_nothing(second, recipe, keys, tiny_expert_folder, tmp_path):
    assert second("finetune", recipe, *keys, f"run.folder={tmp_path / 'run'}", "--model", tiny_expert_folder) == 0


def test_compare_prints_nothing_and_writes_no_tables(second, recipe, keys, tmp_path):
    assert second("compare", recipe, *keys, "--methods", "finetune", "--seeds", 1, "--folder", tmp_path / "all") == 0
    assert not list((tmp_path / "all").glob("table.*"))


def test_study_prints_nothing(second, recipe, keys, tmp_path):
    assert (
        second("study", "init", recipe, *keys, "--values", "lower", "--seeds", 1, "--folder", tmp_path / "study") == 0
    )


def test_what_every_rank_finds_wrong_is_said_once(second, recipe, keys):
    assert second("compress", recipe, *keys, "plan.sucessors=2") == 2


def test_a_sweep_by_torchrun_is_refused_with_what_to_do_instead(command, recipe, monkeypatch, tmp_path):
    monkeypatch.setenv("WORLD_SIZE", "2")
    space = ["--space", "training.learning_rate=1e-4,1e-3", "--folder", tmp_path / "sweep"]
    result = command("sweep", recipe, *space)
    assert result.code == 2
    assert "start the same command several times instead of by torchrun" in result.err
    assert not (tmp_path / "sweep").exists()


@pytest.mark.parametrize(
    ("room", "arguments"),
    [("search", ["plan", "--target", "2x"]), ("frontier", ["frontier"])],
    ids=["plan", "frontier"],
)
def test_what_times_models_is_refused_in_several_processes(command, recipe, monkeypatch, tmp_path, room, arguments):
    two = Context(Console(quiet=True), tmp_path, world_size=2)
    monkeypatch.setattr(f"plankwise.{room}.flow.open_context", lambda *given: two)
    name, *more = arguments
    result = command(name, recipe, *more, "--folder", tmp_path / "made")
    assert result.code == 2
    assert "in one process; start the command without torchrun" in result.err
    assert not (tmp_path / "made").exists()
