"""What commands print where: --version, --quiet, --json, a log in the run's folder, completion."""

import json
import os
import subprocess
import sys

import pytest

import plankwise


def test_the_version_is_told(command):
    assert command("--version").out == f"plankwise {plankwise.__version__}\n"


@pytest.fixture
def quick(recipe, tiny_expert_folder):
    off = [f"evaluation.{key}=false" for key in ("truncated", "latency", "estimate")]
    return [recipe, f"predecessor.path={tiny_expert_folder}", *off]


def test_a_quiet_run_prints_the_path_of_its_result_alone_and_its_log_has_the_rest(command, quick, tmp_path):
    result = command("compress", *quick, "--quiet")
    assert result.code == 0, result.err
    assert (result.out, result.err) == (f"{tmp_path / 'run' / 'successor'}\n", "")
    log = (tmp_path / "run" / "log.txt").read_text("utf-8")
    assert "replacing: 2 steps" in log
    assert f"report: {tmp_path / 'run' / 'report.html'}" in log
    lines = len(log.splitlines())
    assert command("--quiet", "compress", *quick).out == result.out
    assert len((tmp_path / "run" / "log.txt").read_text("utf-8").splitlines()) > lines


def test_the_result_is_json_on_standard_output_and_all_else_is_on_standard_error(command, quick, tmp_path):
    result = command("compress", *quick, "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    record = json.loads((tmp_path / "run" / "record.json").read_text("utf-8"))
    assert found == {**record, "folder": str(tmp_path / "run"), "report": str(tmp_path / "run" / "report.html")}
    assert "replacing: 2 steps" in result.err
    before = command("--json", "compress", *quick)
    assert json.loads(before.out) == found


@pytest.mark.parametrize("flag", ["--quiet", "--json"])
def test_a_mistake_is_told_on_standard_error_whatever_was_asked_for(command, recipe, flag):
    result = command("compress", recipe, "plan.sucessors=3", flag)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("plankwise: plan.sucessors: there is no such key")


def test_options_of_one_command_do_not_reach_the_next(command):
    first = json.loads(command("list", "parts", "--json").out)[0]["name"]
    assert command("list", "parts").out.startswith(first)


def test_the_other_commands_give_json_too(command, quick, tiny_expert_folder, table_file, tmp_path):
    metrics = json.loads(command("evaluate", tiny_expert_folder, *_task(table_file), "--json").out)
    assert metrics["accuracy"] == 1.0
    planned = json.loads(command("plan", *quick, "--json").out)
    assert [slot["span"] for slot in planned["plan"]] == [[0, 1], [2, 3]]
    out = tmp_path / "predictions.csv"
    arguments = (
        "predict",
        tiny_expert_folder,
        "--table",
        table_file,
        "--text",
        "sentence",
        "--out",
        out,
        *_task(table_file),
    )
    assert json.loads(command(*arguments, "--json").out) == {"written": [str(out)]}
    assert command(*arguments, "--quiet").out == f"{out}\n"
    command("compress", *quick)
    found = json.loads(command("report", tmp_path / "run", "--json").out)
    assert found["report"] == str(tmp_path / "run" / "report.html")
    assert [result["steps"] for result in found["results"].values()] == [2]
    looked = json.loads(command("analyse", tmp_path / "run", "--only", "errors", "--json").out)
    assert looked["errors"]["examples"] > 0


def _task(table) -> list[str]:
    return [
        "task.name=table",
        f"task.train={table}",
        "task.text=sentence",
        "task.label=label",
        "training.max_length=16",
    ]


def test_a_comparison_gives_its_table_and_its_folder(command, quick, tmp_path):
    arguments = ("compare", *quick, "--methods", "finetune", "--seeds", 1, "--folder", tmp_path / "all")
    found = json.loads(command(*arguments, "--json").out)
    assert found == json.loads((tmp_path / "all" / "table.json").read_text("utf-8"))
    assert command(*arguments, "--quiet").out == f"{tmp_path / 'all'}\n"
    assert "cell 1 of 1: finetune" in (tmp_path / "all" / "log.txt").read_text("utf-8")


def complete(words: str, folder) -> list[str]:
    """What a bash offers for the last word."""
    environment = {"_PLANKWISE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "plankwise"],
        env={**os.environ, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_shell_completes_commands_recipes_keys_and_names(tmp_path):
    (tmp_path / "recipes").mkdir()
    for name in ("recipes/rte.toml", "recipes/notes.txt", "own.toml"):
        (tmp_path / name).touch()
    assert complete("plankwise compr", tmp_path) == ["compress"]
    assert complete("plankwise compress ", tmp_path)[:2] == ["own.toml", "recipes/"]
    assert complete("plankwise compress recipes/", tmp_path) == ["recipes/rte.toml"]
    assert complete("plankwise compress own.toml training.ep", tmp_path) == ["training.epochs="]
    assert complete("plankwise list sch", tmp_path) == ["schedules"]
    assert complete("plankwise study sch", tmp_path) == ["schedule"]
