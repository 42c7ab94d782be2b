"""The command from recipe to tables, and what it refuses."""

import json

import pytest

from plankwise.cli.compare import _read_variant
from plankwise.errors import ConfigError


@pytest.fixture
def quick(tiny_expert_folder):
    """Keys for cells of one step, from a predecessor that knows its task."""
    return [f"predecessor.path={tiny_expert_folder}", "training.max_steps=1"]


def test_a_comparison_prints_and_writes_its_tables_and_starts_no_cell_twice(command, recipe, quick, tmp_path):
    arguments = ("compare", recipe, *quick, "evaluation.batch_size=16", "--seeds", 1, "--folder", tmp_path / "all")
    arguments += ("--methods", "finetune,replacing", "--variant", "half: method.schedule={kind='constant', rate=0.5}")
    result = command(*arguments)
    assert result.code == 0, result.err
    assert "cell 3 of 3: half, seed 0, tiny; less than a minute left" in result.out
    assert result.out.rstrip().endswith(f"tables: {tmp_path / 'all' / 'table.md'}")
    (task,) = json.loads((tmp_path / "all" / "table.json").read_text())["tasks"]
    assert [row["label"] for row in task["rows"]] == ["predecessor", "finetune", "replacing", "half"]
    assert task["configs"]["half"]["method"]["schedule"]["kind"] == "constant"
    assert {config["evaluation"]["batch_size"] for config in task["configs"].values()} == {16}
    again = command(*arguments)
    assert "3 of 3 cells are finished already" in again.out
    assert "cell 1" not in again.out
    assert result.out[result.out.index("reviews: score is") :] == again.out[again.out.index("reviews: score is") :]


def test_a_failed_cell_is_shown_with_its_reason_and_the_exit_code_is_1_until_it_succeeds(
    command, recipe, quick, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "compare-tiny"
    arguments = (
        "compare",
        recipe,
        *quick,
        "evaluation.latency=false",
        "--seeds",
        1,
        "--methods",
        "finetune, replacing",
    )
    assert command(*arguments).code == 0
    cell = folder / "tiny" / "replacing" / "seed-0"
    (cell / "cell.json").unlink()
    (cell / "checkpoints").write_text("in the way")
    result = command(*arguments)
    assert result.code == 1
    assert "replacing: 0 of 1 seeds; seed 0 failed: NotADirectoryError: [Errno 20] Not a directory" in result.out
    assert "| replacing | failed |" in (folder / "table.md").read_text()
    (cell / "checkpoints").unlink()
    assert command(*arguments).code == 0
    assert "failed" not in (folder / "table.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--seeds", "0"], "--seeds is 0; give 1 or more"),
        (["--methods", ""], "there is no row to compare; give at least one method or variant"),
        (["--methods", "kd,kd"], "row label 'kd' is given twice"),
        (["--methods", "kdd"], "row 'kdd' of tiny: method.name is 'kdd'; there is no such method. Did you mean 'kd'?"),
        (["--methods", "kd,,pkd"], "row label '' cannot name a folder"),
        (["--variant", "plan.successors=4"], "--variant is 'plan.successors=4'; write a label, a colon and keys"),
        (["--variant", "kd: task.clean=false"], "row label 'kd' is given twice"),
        (["--variant", "x: task.clean=false"], "row 'x' sets task.clean, but all rows share"),
        (
            ["--row", "runs/mine"],
            "--row is 'runs/mine'; write a label, a colon and a folder, for example 'mine: runs/mine'",
        ),
        (["plan.sucessors=4"], "plan.sucessors: there is no such key. Did you mean 'successors'?"),
        (["none.toml"], "recipe none.toml does not exist; give a TOML file"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_a_sentence(command, recipe, tmp_path, arguments, sentence):
    result = command("compare", recipe, *arguments, "--folder", tmp_path / "all")
    assert result.code == 2
    assert result.err.startswith(f"plankwise: {sentence}")
    assert result.err.count("\n") == 1
    assert not (tmp_path / "all").exists()


def test_overrides_alone_are_no_recipe(command, tmp_path):
    result = command("compare", "plan.successors=4", "--folder", tmp_path / "all")
    assert (result.code, result.err.startswith("plankwise: no recipe is given; give at least one TOML file")) == (
        2,
        True,
    )


def test_a_recipe_may_have_an_equals_sign_in_its_name(command, recipe, tmp_path):
    other = recipe.rename(tmp_path / "a=b.toml")
    result = command("compare", other, "--seeds", 1, "--methods", "kdd")
    assert "run.name is 'a=b'" in result.err


def test_a_variant_is_a_label_and_keys_whose_values_may_hold_blanks():
    label, overrides = _read_variant("a+b:  plan.successors=4 method.schedule={kind='slope', k=0.1}  plan.init=mean ")
    assert label == "a+b"
    assert overrides == ("plan.successors=4", "method.schedule={kind='slope', k=0.1}", "plan.init=mean")
    assert _read_variant("as-it-is:") == ("as-it-is", ())
    with pytest.raises(ConfigError, match=r"^--variant is 'x'; write a label"):
        _read_variant("x")
