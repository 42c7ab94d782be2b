"""What a comparison refuses before anything is written."""

import io

import pytest
from rich.console import Console

from plankwise.comparison.grid import Variant, run_grid
from plankwise.errors import ConfigError, PlanError

QUIET = Console(quiet=True)
CUT = Variant("cut", ("method.name=finetune",))


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


def test_an_optional_row_that_does_not_fit_is_left_out_and_said(trained, tmp_path):
    unfit = Variant("unfit", ("method.name=finetune", "plan.successors=3"), optional=True)
    told = Console(record=True, width=200, file=io.StringIO())
    (task,) = run_grid([trained], [CUT, unfit], [0], tmp_path / "some", told)
    assert list(task.methods) == ["cut"]
    assert "left out: row 'unfit' of " in told.export_text()
    with pytest.raises(PlanError, match=r"^row 'unfit' of "):
        run_grid([trained], [unfit], [0], tmp_path / "none", QUIET)
