"""What a first round of fuzzing found: every one of these was a traceback, a hang, or a run that went wrong without a word."""

import csv
import json
import shutil

import pytest

from plankwise.config import load_config
from plankwise.errors import ConfigError, DataError, RunError, shorten
from plankwise.evaluation import matching
from plankwise.evaluation.rules import RuleOptions, apply_rules
from plankwise.run.folders import claim, is_finished

LONG = "x" * 100_000


@pytest.mark.parametrize(("override", "sentence"), [
    ("method.mode=[]", "method.mode is []; give 'clean' or 'reference'"),
    ("method.mode={}", "method.mode is {}; give 'clean' or 'reference'"),
    ("task.encoding=idna", "task.encoding is 'idna', which is not what files are written in: try utf-8"),
    ("task.encoding=punycode", "task.encoding is 'punycode', which is not what files are written in: try utf-8"),
    ("task.encoding=raw_unicode_escape", "'raw_unicode_escape', which is not what files are written in: try utf-8"),
    ("task.encoding=undefined", "task.encoding is 'undefined'; Python has no such encoding: try utf-8"),
    ("task.encoding=utf-16", "reviews.csv is not utf-16 (UTF-16 stream does not start with BOM); set task.encoding"),
    ("run.name=..", "run.name is '..'; give the run's name: letters, digits, . _ -"),
    ("run.name=../../up", "run.name is '../../up'; give the run's name: letters, digits, . _ -"),
    (f"run.name={'n' * 300}", "give at most 200 characters"),
    ("run.folder=/proc/plankwise", "/proc/plankwise cannot be written (No such file or directory); choose another"),
    (f"run.folder={'n' * 300}", "(File name too long); choose another run.folder"),
    ('run.folder="a\\u0000b"', "run.folder is 'a\\x00b'; take out what is not a character"),
    ("task.text=\udc80", "task.text is '\\udc80'; take out what is not a character"),
    (f"task.train={LONG}", "cannot be used (File name too long)"),
    (f"run.seed={'9' * 5000}", "give a whole number"),
    (f"run.seed={2**32}", "run.seed is 4294967296; give a number of at least 0 and below 4294967296"),
    (f"training.max_steps={10**30}", "give a number of at least 1 and up to 1000000000"),
    (f"plan.successors={'[' * 3000}{']' * 3000}", "give a whole number"),
])  # fmt: skip
def test_an_override_that_no_run_can_have_is_one_sentence(refusal, override, sentence):
    said = refusal(override)
    assert sentence in said
    assert len(said) < 4_500


@pytest.mark.parametrize(("text", "sentence"), [
    ("x = " + "[" * 3000 + "]" * 3000, "is not TOML: it is nested too deeply"),
    ("[" + ".".join("a" * 3000) + "]", "a: there is no such key"),
    ("[run]\nseed = " + "9" * 5000, "is not TOML: Exceeds the limit (4300 digits) for integer string conversion"),
    ("[run]\nseed = 1__0", "is not TOML"),
])  # fmt: skip
def test_a_recipe_that_python_cannot_read_is_one_sentence(refusal, tmp_path, text, sentence):
    file = tmp_path / "odd.toml"
    file.write_text(text)
    assert sentence in refusal(recipe=file)


def test_a_recipe_with_a_name_that_is_too_long_is_one_sentence(command):
    result = command("compress", LONG)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert result.err.endswith("cannot be used (File name too long); give another, or put it right\n")


@pytest.mark.parametrize("given", [LONG, f"plan.successors={LONG}", f"{LONG}=3", f"predecessor.path={LONG}"])
def test_an_error_repeats_no_more_than_a_screen_of_what_was_given(refusal, given):
    said = refusal(given)
    assert len(said) < 4_500
    assert "characters left out" in said


def test_a_shortened_message_keeps_its_beginning_and_its_end():
    said = str(ConfigError(f"key is {LONG}; give another"))
    assert said.startswith("key is xxx")
    assert said.endswith("xxx; give another")
    assert shorten("short") == "short"


@pytest.mark.parametrize("content", [b"", b"junk" * 100, None])
def test_a_start_from_a_damaged_checkpoint_is_refused(refusal, tiny_classifier_folder, tmp_path, content):
    folder = tmp_path / "start"
    shutil.copytree(tiny_classifier_folder, folder)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2] if content is None else content)
    said = refusal(f"plan.init={folder}")
    assert "none could be loaded from there (" in said


def test_a_corpus_with_a_header_longer_than_pythons_limit_is_read(tmp_path):
    from plankwise.data.corpus import find_shards, read_shard

    file = tmp_path / "corpus.csv"
    file.write_text("t" * 140_000 + ",b\nrow,a text\n")
    (shard,) = find_shards(str(file), unit="line", column="b", key="task.path")
    assert read_shard(shard) == ["a text"]
    assert csv.field_size_limit() == 131_072


@pytest.mark.parametrize("text", ["[]", "{}"])
@pytest.mark.parametrize("command_name", ["compress", "finetune"])
def test_a_record_that_says_nothing_is_refused_and_nothing_is_trained_again(
    command, recipe, tmp_path, text, command_name
):
    overrides = [f"run.folder={tmp_path / 'run'}"]
    claim(tmp_path / "run", load_config(recipe, overrides))
    (tmp_path / "run" / "record.json").write_text(text)
    asked = ["finetune", recipe] if command_name == "finetune" else ["compress", recipe]
    result = command(*asked, *overrides)
    assert result.code == 2
    assert "record.json cannot be read" in result.err
    assert result.err.endswith("delete it and run the same command again\n")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["config.toml", "record.json"]


@pytest.mark.parametrize("text", ["{}", "[", '{"seconds": {"estimated": "x"}}', "[" * 100_000])
def test_a_damaged_estimate_is_named(command, recipe, tiny_expert_folder, tmp_path, text):
    overrides = [f"run.folder={tmp_path / 'run'}", f"predecessor.path={tiny_expert_folder}"]
    claim(tmp_path / "run", load_config(recipe, overrides))
    (tmp_path / "run" / "checkpoints").mkdir()
    (tmp_path / "run" / "checkpoints" / "estimate.json").write_text(text)
    result = command("compress", recipe, *overrides)
    assert result.code == 2
    assert "estimate.json cannot be read" in result.err
    assert result.err.endswith("delete it and run the same command again\n")


def test_a_pattern_that_would_never_end_is_stopped(monkeypatch):
    monkeypatch.setattr(matching, "SECONDS", 0.5)
    rule = RuleOptions(kind="regex", name="endless", pattern="(a+)+$")
    with pytest.raises(ConfigError, match=r"the pattern of 'endless', '\(a\+\)\+\$', takes more than 0.5 s on 1 texts"):
        apply_rules([rule], ["a" * 60 + "!"], [])


@pytest.mark.parametrize("pattern", ["(" * 5000 + ")" * 5000, "a{99999999999999999999}"])
def test_a_pattern_that_cannot_be_compiled_is_refused(pattern):
    with pytest.raises(ConfigError, match="is not a regular expression"):
        load_config(None, [f"analysis.rules=[{{kind='regex', pattern='{pattern}'}}]"])


def test_a_row_number_of_5000_digits_is_not_a_row(tmp_path):
    import numpy as np

    from plankwise.evaluation.hand_labels import Answers, read_labels

    predicted = {"predecessor": np.array([1]), "successor": np.array([1])}
    answers = Answers([("a text",)], ["no", "yes"], np.array([0]), predicted)
    (tmp_path / "errors.csv").write_text(
        "row,text,label,predecessor,successor,error_class\n" + "9" * 5000 + ",a text,no,yes,yes,odd\n"
    )
    with pytest.raises(DataError, match=r"line 2: row '9{40}…' is not an error of this run"):
        read_labels(tmp_path / "errors.csv", answers, margin=0.03)


def test_classes_that_a_spreadsheet_would_run_are_written_as_text(command, tiny, tmp_path):
    model = tiny.save_expert(tmp_path / "model", names=("=cmd()", "-1"))
    (tmp_path / "new.csv").write_text("sentence\nthe film is fine\nthe film is dull\n")
    out = tmp_path / "predictions.csv"
    keys = ["--table", tmp_path / "new.csv", "--text", "sentence", "--out", out]
    result = command("predict", model, "training.max_length=16", *keys)
    assert result.code == 0, result.err
    with out.open(newline="") as file:
        assert [row["prediction"] for row in csv.DictReader(file)] == ["-1", "'=cmd()"]  # a number stays one


def test_a_folder_that_another_plan_has_begun_is_refused_with_the_key(recipe, tmp_path):
    claim(tmp_path / "run", load_config(recipe, ["plan.successors=2"]))
    with pytest.raises(RunError, match=r"plan.successors is 2 there, 1 here"):
        is_finished(tmp_path / "run", load_config(recipe, ["plan.successors=1"]))
    config = json.dumps(LONG)
    with pytest.raises(RunError, match="characters left out"):
        is_finished(tmp_path / "run", load_config(recipe, [f"task.text={config}"]))
