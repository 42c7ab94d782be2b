"""Runs on tagged words, from CoNLL files to a smaller tagger that the pipeline of transformers loads."""

import json
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console
from transformers import pipeline

from plankwise.config import load_config
from plankwise.errors import ConfigError, DataError, RunError
from plankwise.models.loading import Loader
from plankwise.run.compress import compress
from plankwise.run.estimating import preview
from plankwise.task_kinds import read_task

sys.path.insert(0, str(Path(__file__).parents[1] / "task_kinds"))
import example_tokens


@pytest.fixture
def recipe(tmp_path, tiny_model_folder):
    example_tokens.section(tmp_path)
    path = tmp_path / "names.toml"
    path.write_text(
        f"""
        [run]
        folder = {json.dumps(str(tmp_path / "run"))}
        [predecessor]
        path = {json.dumps(str(tiny_model_folder))}
        training = {{ max_steps = 60, learning_rate = 5e-3, batch_size = 8 }}
        [task]
        name = "tokens"
        train = {json.dumps(str(tmp_path / "train.conll"))}
        dev = {json.dumps(str(tmp_path / "dev.conll"))}
        test = {json.dumps(str(tmp_path / "dev.conll"))}
        [plan]
        successors = 2
        [training]
        max_steps = 6
        evaluate_every = 3
        batch_size = 8
        max_length = 16
        [evaluation]
        estimate = false
        latency_predictions = 1
        latency_batch_sizes = [1]
        """,
        "utf-8",
    )
    return path


@pytest.fixture
def quiet():
    return Console(quiet=True)


def test_a_run_leaves_a_tagger_that_the_pipeline_loads(recipe, quiet, command, tmp_path):
    record = compress(load_config(recipe, []), quiet)
    assert record["task"]["labels"] == ["O", "B-PER", "B-WORK", "I-PER", "I-WORK"]
    assert record["task"]["score"] == ["f1"]
    assert record["predecessor"]["score"] > 0.5
    after = record["successor"]
    assert set(after["metrics"]) == {"precision", "recall", "f1", "accuracy"}
    assert after["score"] == after["metrics"]["f1"]

    successor = tmp_path / "run" / "successor"
    scored = command("evaluate", successor, "--json")
    assert scored.code == 0, scored.err
    assert json.loads(scored.out) == {**after["metrics"], "score": after["score"]}

    written = command("predict", successor, "--out", tmp_path / "tagged")
    assert written.code == 0, written.err
    blocks = (tmp_path / "tagged" / "dev.conll").read_text().strip().split("\n\n")
    tagged = [[tuple(line.split("\t")) for line in block.split("\n")] for block in blocks]
    right = example_tokens.texts(70)[50:]
    assert [[word for word, _ in text] for text in tagged] == [[word for word, _ in text] for text in right]
    known = [
        one == other
        for ours, theirs in zip(tagged, right, strict=True)
        for one, other in zip(ours, theirs, strict=True)
    ]
    assert sum(known) / len(known) == pytest.approx(after["metrics"]["accuracy"])

    tagger = pipeline("token-classification", model=str(successor))
    found = {one["word"]: one["entity"] for one in tagger(" ".join(word for word, _ in right[0]))}
    assert {word: tag for word, tag in tagged[0] if tag != "O"} == found

    (tmp_path / "new.csv").write_text("id,text\n1,the actor was\n2,a film\n")
    out = tmp_path / "out.csv"
    written = command("predict", successor, "--table", tmp_path / "new.csv", "--text", "text", "--out", out)
    assert written.code == 0, written.err
    header, first, second = out.read_text().splitlines()
    assert header == "id,text,tags"
    assert [len(line.split(",")[2].split()) for line in (first, second)] == [3, 2]

    exported = command("export", tmp_path / "run", "--to", "onnx", "--check", "--json")
    assert exported.code == 0, exported.err
    assert json.loads(exported.out)["check"]["equal_answers"] == 1


def test_methods_are_compared_text_by_text(recipe, command, tmp_path):
    folder = tmp_path / "compared"
    command("compare", recipe, "--methods", "solve,kd,finetune", "--seeds", 1, "--folder", folder)
    (table,) = json.loads((folder / "table.json").read_text())["tasks"]
    assert [row["label"] for row in table["rows"]] == ["predecessor", "solve", "kd", "finetune"]
    assert not any(row["failure"] for row in table["rows"])
    assert any(row["p"] is not None for row in table["rows"])


def read(recipe, quiet, *overrides):
    config = load_config(recipe, list(overrides))
    return read_task(config, Loader().tokenizer(config.predecessor.path), quiet)


def test_parts_of_speech_are_scored_by_words(recipe, quiet, tmp_path):
    for name in ("train", "dev"):
        path = tmp_path / f"{name}.conll"
        path.write_text(path.read_text().replace("B-", "").replace("I-", "").replace("\tO", "\tNOUN"))
    task = read(recipe, quiet)
    assert task.score_names == ("accuracy",)
    assert task.tags == ("NOUN", "PER", "WORK")
    with pytest.raises(ConfigError, match=r"task\.metric is 'f1', which is over entities"):
        read(recipe, quiet, "task.metric=f1")


def test_words_that_were_cut_off_count_as_missed(recipe, quiet):
    task = read(recipe, quiet, "training.max_length=4")  # two words, neither of them a name
    perfect = task._truth.copy()
    perfect[:, 2:][perfect[:, 2:] > 0] = 0
    assert task.dev["dev"].num_cut == len(task.dev_texts)
    scores = task.score_outputs({"dev": perfect})
    assert (scores["recall"], scores["score"]) == (0, 0)
    assert task.score_outputs({"dev": task._truth})["score"] == 1


def test_train_keeps_no_text_twice_and_none_of_dev(recipe, quiet, tmp_path):
    both = [(tmp_path / f"{name}.conll").read_text() for name in ("train", "train", "dev")]
    (tmp_path / "train.conll").write_text("\n".join(both))
    task = read(recipe, quiet)
    assert task.dropped == {"duplicates": 50, "overlap": 20}
    assert len(task.train_texts) == 50


def test_what_a_run_will_take_is_estimated(recipe, quiet):
    found = preview(load_config(recipe, ["method.alpha=0.5"]), quiet, estimate=True)
    assert found["estimate"]["seconds"]["estimated"] > 0
    assert {"predecessor", "solving", "targets", "replacing"} <= set(found["estimate"]["phases"])


def test_what_cannot_be_is_refused(recipe, quiet):
    for override, reason in {
        "method.name=exits": r"method\.name is 'exits', which is for classes of whole texts",
    }.items():
        with pytest.raises(ConfigError, match=reason):
            preview(load_config(recipe, [override]), quiet, estimate=False)
    with pytest.raises(DataError, match=r"tag 'B-WORK' is not in task\.labels \(O, B-PER\)"):
        read(recipe, quiet, 'task.labels=["O", "B-PER"]')


def test_a_predecessor_that_finds_nothing_is_refused(recipe, quiet):
    task = read(recipe, quiet)

    def finds_nothing(batch):
        return {"logits": torch.zeros(*batch["input_ids"].shape, len(task.tags))}

    finds_nothing.tokenizer = None
    with pytest.raises(RunError, match="no better than one tag for every word"):
        task.check_predecessor(finds_nothing, "model")
