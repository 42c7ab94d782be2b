"""Commands in a process that is not the first of those started together: it takes part, and rank 0 alone speaks and writes."""

import pytest


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
