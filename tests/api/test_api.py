import json

import pandas
import pytest
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import plankwise
from conftest import make_rows
from plankwise.errors import ConfigError, RunError

FEW = {
    "plan": {"successors": 2},
    "training": {"max_steps": 4, "batch_size": 8, "max_length": 16},
    "evaluation": {"latency": False, "estimate": False, "truncated": False},
    "quiet": True,
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def frame():
    return pandas.DataFrame(make_rows(48), columns=["text", "label"])


def test_a_frame_in_and_a_successor_out_that_answers_by_name(tiny_expert_folder, frame, tmp_path):
    found = plankwise.compress(tiny_expert_folder, task=frame, run={"name": "mine"}, **FEW)
    assert found.folder.resolve() == tmp_path / "runs" / "mine"
    assert found.record["successor"]["score"] == found.retained * found.record["predecessor"]["score"]
    assert found.successor.config.num_hidden_layers == 2
    answers = found.pipeline()(["a fine film", "a dull plot"])
    assert {answer["label"] for answer in answers} <= {"positive", "negative"}
    assert found.report.read_text("utf-8").startswith("<!doctype html>")


def test_the_same_call_finds_the_finished_run_and_other_data_are_another_run(tiny_expert_folder, frame):
    first = plankwise.compress(tiny_expert_folder, task=frame, **FEW)
    again = plankwise.compress(tiny_expert_folder, task=frame.to_dict("records"), **FEW)
    assert again.record == json.loads(json.dumps(first.record))
    with pytest.raises(RunError, match=r"holds another run \(task\.train is .* there"):
        plankwise.compress(tiny_expert_folder, task=frame[:40], **FEW)


def test_a_model_in_memory_is_compressed_and_scored(tiny_expert_folder, frame):
    model = AutoModelForSequenceClassification.from_pretrained(tiny_expert_folder)
    tokenizer = AutoTokenizer.from_pretrained(tiny_expert_folder)
    before = plankwise.evaluate(
        model, tokenizer=tokenizer, task={"train": frame, "dev": frame[:20]}, training={"max_length": 16}
    )
    assert before["score"] == before["accuracy"] == 1.0
    found = plankwise.compress(model, tokenizer=tokenizer, task={"train": frame, "dev": frame[:20]}, **FEW)
    assert found.record["predecessor"]["score"] == 1.0
    assert model.config.num_hidden_layers == 4


def test_sections_lie_over_the_recipe(tiny_expert_folder, frame, tmp_path):
    frame.to_csv(tmp_path / "train.csv", index=False)
    (tmp_path / "mine.toml").write_text(
        '[task]\nname = "table"\ntrain = "train.csv"\ntext = "text"\nlabel = "label"\n'
        f'[predecessor]\npath = "{tiny_expert_folder}"\n[method]\nschedule = {{ start = 0.5 }}\n'
    )
    found = plankwise.compress(recipe="mine.toml", method={"schedule": {"full_at": 0.75}}, **FEW)
    config = found.record["config"]
    assert config["run"]["name"] == "mine"
    assert (config["method"]["schedule"]["start"], config["method"]["schedule"]["full_at"]) == (0.5, 0.75)
    scores = plankwise.evaluate(found.folder / "successor")
    assert scores["score"] == found.record["successor"]["score"]


def test_a_wrong_key_is_told_in_the_words_of_the_command(tiny_expert_folder, frame):
    with pytest.raises(ConfigError, match=r"training\.epoch"):
        plankwise.compress(tiny_expert_folder, task=frame, training={"epoch": 1})


def test_a_model_of_no_run_needs_a_task(tiny_expert_folder):
    with pytest.raises(ConfigError, match="give task= or recipe="):
        plankwise.evaluate(tiny_expert_folder)


def test_results_show_themselves_as_text_and_as_html_with_data_escaped(tiny_expert_folder, frame):
    frame["label"] = frame["label"].replace("positive", "<b>positive")
    names = {"labels": ["negative", "<b>positive"]}
    found = plankwise.compress(
        tiny_expert_folder,
        task={"train": frame, **names},
        predecessor={"finetune": True, "training": {"max_steps": 60}},
        **FEW,
    )
    assert "parameters" in repr(found)
    assert "successor: " in repr(found)
    page = found._repr_html_()
    assert "<table>" in page
    assert "<b>" not in page
    found.record["successor"]["beyond_constant"] = {
        "answered": 1, "most_answered": "<b>positive", "constant": "'<b>positive'", "constant_score": 0.5, "shown": False
    }  # fmt: skip
    assert "answers only &#x27;&lt;b&gt;positive" in found._repr_html_()


def test_a_comparison_is_a_table_and_a_frame(tiny_expert_folder, frame):
    found = plankwise.compare(tiny_expert_folder, task=frame, methods=["finetune", "replacing"], seeds=1, **FEW)
    rows = found.to_pandas()
    assert list(rows["label"]) == ["predecessor", "finetune", "replacing"]
    assert "replacing" in repr(found)
    assert "<table>" in found._repr_html_()
    assert (found.folder / "table.md").is_file()
