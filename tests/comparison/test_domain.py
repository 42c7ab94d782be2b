"""The four settings on tiny models: real runs of a step or two each."""

import json

import pytest
from rich.console import Console

from plankwise.comparison import domain
from plankwise.config import load_config, load_data
from plankwise.errors import ConfigError
from plankwise.run import compress, finetune


@pytest.fixture
def domain_run(tmp_path, tiny, tiny_model_folder):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(text for text, _ in tiny.make_rows(200)), "utf-8")
    keys = [
        "task.name=text",
        f"task.path={corpus}",
        f"predecessor.path={tiny_model_folder}",
        "predecessor.training={max_steps=20, learning_rate=3e-3, batch_size=8}",
        "training.max_steps=2",
        "training.max_length=16",
        "evaluation.latency=false",
        "evaluation.floor=false",
        f"run.folder={tmp_path / 'domain'}",
    ]
    compress(load_config(None, keys), Console(quiet=True))
    return tmp_path / "domain"


def test_four_settings_stand_side_by_side(domain_run, recipe, command, tmp_path):
    folder = tmp_path / "settings"
    result = command("compare", recipe, "--domain", domain_run, "--seeds", 1, "--folder", folder)
    assert result.code == 0, result.out + result.err
    found = json.loads((folder / "table.json").read_text())
    plain, plain_compressed, tuned, compressed = found["rows"]
    assert [row["name"] for row in found["rows"]] == ["plain", "plain-compressed", "domain", "domain-compressed"]
    assert plain["retained"] is None
    assert plain_compressed["retained"] == pytest.approx(plain_compressed["scores"][0] / plain["scores"][0])
    assert compressed["retained"] == pytest.approx(compressed["scores"][0] / tuned["scores"][0])
    assert compressed["speedup_of_tuning"] == pytest.approx(tuned["seconds_to_best"] / compressed["seconds_to_best"])
    assert compressed["speedup"] == pytest.approx(tuned["latency_ms"] / compressed["latency_ms"])
    assert plain_compressed["seconds_to_best"] > plain["seconds_to_best"]
    assert plain["perplexity"] is None
    record = json.loads((domain_run / "record.json").read_text())
    assert compressed["perplexity"] == record["successor"]["metrics"]["perplexity"]
    assert compressed["parameters"] < plain["parameters"] == tuned["parameters"]
    assert "domain-compressed" in result.out
    assert "| domain-compressed |" in (folder / "table.md").read_text()


def test_a_finished_comparison_is_not_run_again(domain_run, recipe, tmp_path, monkeypatch):
    arguments = (load_data(recipe, ["evaluation.latency=false"]), domain_run, [0], tmp_path / "settings")
    first = domain.run_settings(*arguments, Console(quiet=True))
    monkeypatch.setattr("plankwise.run.train_whole", None)
    monkeypatch.setattr("plankwise.run.train_successor", None)
    assert domain.run_settings(*arguments, Console(quiet=True)) == first


def test_a_setting_that_fails_is_shown_with_its_reason(domain_run, recipe, tmp_path, monkeypatch, capsys):
    def failing(config, console):
        if "domain-compressed" in config.run.folder:
            raise ValueError("no luck")
        return finetune(config, console)

    monkeypatch.setattr(domain, "finetune", failing)
    data = load_data(recipe, ["evaluation.latency=false"])
    settings = domain.run_settings(data, domain_run, [0], tmp_path / "settings", Console(quiet=True))
    row = settings.rows[-1]
    assert row.failures == {0: "ValueError: no luck"}
    assert row.median is None
    text = domain.write_settings(settings, tmp_path / "settings").read_text()
    assert "| domain-compressed |  | failed |" in text
    assert "seed 0 failed: ValueError: no luck" in text


def test_a_run_with_labels_is_no_domain(recipe, tmp_path):
    compress(load_config(recipe, ["evaluation.latency=false"]), Console(quiet=True))
    with pytest.raises(ConfigError, match="whose task has labels"):
        domain.run_settings(load_data(recipe, []), tmp_path / "run", [0], tmp_path / "settings", Console(quiet=True))


def test_methods_and_the_four_settings_are_two_things(recipe, command, tmp_path):
    result = command("compare", recipe, "--domain", tmp_path, "--methods", "kd")
    assert result.code == 2
    assert "no --methods" in result.err
