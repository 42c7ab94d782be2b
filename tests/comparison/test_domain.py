"""The four settings on tiny models: real runs of a step or two each."""

import json
import shutil

import pytest
from rich.console import Console

from plankwise.comparison import domain
from plankwise.config import load_config, load_data
from plankwise.errors import ConfigError
from plankwise.report.speed import speedup_keys
from plankwise.run.compress import compress

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def domain_run(tmp_path_factory, tiny, tiny_model_folder):
    """A finished run that tuned and compressed a language model."""
    folder = tmp_path_factory.mktemp("domain")
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(text for text, _ in tiny.make_rows(100)), "utf-8")
    keys = [
        "task.name=text",
        f"task.path={corpus}",
        f"predecessor.path={tiny_model_folder}",
        "predecessor.training={max_steps=10, learning_rate=3e-3, batch_size=8}",
        "training.max_steps=1",
        "training.max_length=16",
        "evaluation.latency=false",
        "evaluation.estimate=false",
        "evaluation.truncated=false",
        f"run.folder={folder / 'run'}",
    ]
    compress(load_config(None, keys), QUIET)
    return folder / "run"


@pytest.fixture
def quick(recipe):
    """Keys that make the runs of a setting short; `plain-compressed` needs a predecessor that has learnt something."""
    training = "predecessor.training={epochs=4, learning_rate=3e-3, batch_size=8}"
    return recipe, [training, "training.max_steps=1", "evaluation.estimate=false"]


def test_four_settings_stand_side_by_side_and_are_not_run_again(domain_run, quick, command, tmp_path):
    recipe, keys = quick
    folder = tmp_path / "settings"
    arguments = ("compare", recipe, *keys, "--domain", domain_run, "--seeds", 1, "--folder", folder)
    result = command(*arguments)
    assert result.code == 0, result.out + result.err
    found = json.loads((folder / "table.json").read_text())
    plain, plain_compressed, tuned, compressed = found["rows"]
    assert [row["name"] for row in found["rows"]] == ["plain", "plain-compressed", "domain", "domain-compressed"]
    assert plain["retained"] is None
    assert plain_compressed["retained"] == pytest.approx(plain_compressed["scores"][0] / plain["scores"][0])
    assert compressed["retained"] == pytest.approx(compressed["scores"][0] / tuned["scores"][0])
    assert compressed["speedup_of_tuning"] == pytest.approx(tuned["seconds_to_best"] / compressed["seconds_to_best"])
    speedups = json.loads((folder / "latency.json").read_text())["speedups"]
    assert speedups.keys() == {"plain-compressed", "domain-compressed"}
    (measured,) = speedups["domain-compressed"].values()
    assert compressed["speedup"] == measured["median"]
    assert compressed["speedup_interval"] == [measured["low"], measured["high"]]
    assert (compressed["speedup_steady"], plain["speedup"]) == (False, None)  # 4 rounds are too few
    assert plain_compressed["seconds_to_best"] > plain["seconds_to_best"]
    assert plain["perplexity"] is None
    record = json.loads((domain_run / "record.json").read_text())
    assert compressed["perplexity"] == record["successor"]["metrics"]["perplexity"]
    assert compressed["parameters"] < plain["parameters"] == tuned["parameters"]
    assert "domain-compressed" in result.out
    assert "| domain-compressed |" in (folder / "table.md").read_text()

    again = command(*arguments)
    assert again.out.count("is finished already") == 4
    assert ": step " not in again.out
    assert "latency: " not in again.out
    assert json.loads((folder / "table.json").read_text())["rows"] == found["rows"]


def test_a_setting_that_fails_is_shown_with_its_reason(domain_run, quick, tmp_path):
    recipe, keys = quick
    own = tmp_path / "own"  # the domain's run, whose successor is damaged
    shutil.copytree(domain_run, own)
    (own / "successor" / "model.safetensors").write_bytes(b"nothing")
    data = load_data(recipe, [*keys, "evaluation.latency=false"])
    settings = domain.run_settings(data, own, [0], tmp_path / "settings", QUIET)
    *others, row = settings.rows
    assert not any(other.failures for other in others)
    assert row.failures[0].startswith(f"no model could be loaded from '{own}/successor'")
    assert row.median is None
    text = domain.write_settings(settings, tmp_path / "settings").read_text()
    assert "| domain-compressed |  | failed |" in text
    assert "domain-compressed: seed 0 failed: no model could be loaded" in text


def test_a_setting_that_knows_one_answer_is_called_that(tmp_path):
    figures = {"perplexity": None, "seconds_to_best": 1.0, "retained": 0.5, "speedup_of_tuning": None}
    figures |= {"parameters": 10, "latency_ms": None, "failures": {}, **speedup_keys(None)}
    rows = [
        domain.Setting("plain", [0.9], **figures),
        domain.Setting("dead", [0.5], **figures, remark="answers only 'no'", learnt=False),
    ]
    settings = domain.Settings("films", ("accuracy",), "run", (0,), None, rows)
    text = domain.write_settings(settings, tmp_path).read_text("utf-8")
    assert "| dead |  | 0.5000 | 0.0000 | 50.0%* |" in text
    assert "- dead: answers only 'no'; train it longer" in text
    assert "| plain |  | 0.9000 | 0.0000 | 50.0% |" in text
    assert json.loads((tmp_path / "table.json").read_text("utf-8"))["rows"][1]["remark"] == "answers only 'no'"


def test_a_run_with_labels_is_no_domain(recipe, tmp_path):
    record = {"task": {"name": "films", "score": ["accuracy"]}, "predecessor": {}, "successor": {}, "stages": {}}
    (tmp_path / "record.json").write_text(json.dumps(record))
    with pytest.raises(ConfigError, match="whose task is on labels; give the folder of a finished run with"):
        domain.run_settings(load_data(recipe, []), tmp_path, [0], tmp_path / "settings", QUIET)


def test_methods_and_the_four_settings_are_two_things(recipe, command, tmp_path):
    result = command("compare", recipe, "--domain", tmp_path, "--methods", "kd")
    assert result.code == 2
    assert "no --methods" in result.err
