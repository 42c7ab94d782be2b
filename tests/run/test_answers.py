"""Runs on questions, from SQuAD's files to a smaller model that transformers loads for question answering."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

from plankwise.config import load_config
from plankwise.errors import ConfigError, DataError, RunError
from plankwise.models.loading import Loader
from plankwise.run.compress import compress
from plankwise.run.estimating import preview
from plankwise.task_kinds import read_task
from plankwise.training.losses import distilling, kd_loss
from plankwise.training.targets import Targets

sys.path.insert(0, str(Path(__file__).parents[1] / "task_kinds"))
import example_answers

from vocabularies import save_with_letters

PLAIN = """
import sys
from transformers import AutoModelForQuestionAnswering, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForQuestionAnswering.from_pretrained(sys.argv[1]).eval()
found = model(**tokenizer(sys.argv[2], sys.argv[3], return_tensors="pt"))
assert "plankwise" not in sys.modules
print(found.start_logits.shape == found.end_logits.shape, model.config.num_hidden_layers)
"""


@pytest.fixture
def recipe(tmp_path, tiny_model_folder):
    section = example_answers.section(tmp_path)
    lines = [f"{key} = {json.dumps(value)}" for key, value in section.items()]
    path = tmp_path / "questions.toml"
    path.write_text(
        "\n".join(["[task]", *lines, f"test = {json.dumps(section['dev'])}"])
        + f"""
        [run]
        folder = {json.dumps(str(tmp_path / "run"))}
        [predecessor]
        path = {json.dumps(str(tiny_model_folder))}
        training = {{ max_steps = 80, learning_rate = 5e-3, batch_size = 16 }}
        [plan]
        successors = 2
        [training]
        max_steps = 4
        evaluate_every = 2
        batch_size = 8
        max_length = 24
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


def test_a_run_leaves_a_model_that_transformers_loads_for_question_answering(recipe, quiet, command, tmp_path):
    record = compress(load_config(recipe, ["method.alpha=0.5"]), quiet)
    assert record["task"]["score"] == ["f1"]
    assert record["task"]["questions"] == {"train": 56, "dev": 16}
    assert record["predecessor"]["score"] > 0.2
    after = record["successor"]
    assert set(after["metrics"]) == {"f1", "exact_match"}

    successor = tmp_path / "run" / "successor"
    scored = command("evaluate", successor, "--json")
    assert scored.code == 0, scored.err
    assert json.loads(scored.out) == {**after["metrics"], "score": after["score"]}

    written = command("predict", successor, "--out", tmp_path / "answered")
    assert written.code == 0, written.err
    answers = json.loads((tmp_path / "answered" / "dev.json").read_text())
    right = {
        row["id"]: row["answers"][0]["text"]
        for article in example_answers.articles(36)[28:]
        for row in article["paragraphs"][0]["qas"]
    }
    assert list(answers) == list(right)
    share = sum(answers[key] == right[key] for key in right) / len(right)
    assert share == pytest.approx(after["metrics"]["exact_match"])

    (tmp_path / "new.csv").write_text("question,text\nactor is,the actor lovely\n")
    out, texts = tmp_path / "out.csv", ("--text", "question", "--text", "text")
    written = command("predict", successor, "--table", tmp_path / "new.csv", *texts, "--out", out)
    assert written.code == 0, written.err
    header, row = out.read_text().splitlines()
    assert header == "question,text,answer,score"
    assert row.split(",")[2] in "the actor lovely"
    refused = command("predict", successor, "--table", tmp_path / "new.csv", "--text", "text", "--out", out)
    assert refused.code == 2
    assert "--text is given 1 time; name the column of the questions" in " ".join(refused.err.split())

    plain = [sys.executable, "-c", PLAIN, str(successor), "actor is", "the actor lovely"]
    assert subprocess.run(plain, capture_output=True, text=True, check=True).stdout.split() == ["True", "2"]
    assert "AutoModelForQuestionAnswering.from_pretrained" in (successor / "README.md").read_text()

    exported = command("export", tmp_path / "run", "--to", "onnx", "--check", "--json")
    assert exported.code == 0, exported.err
    found = json.loads(exported.out)["check"]
    assert found["score"] == found["torch_score"]
    (script,) = (tmp_path / "run").rglob("predict.py")
    said = subprocess.run(
        [sys.executable, script, "actor is", "the actor lovely"], capture_output=True, text=True, check=True
    )
    assert said.stdout.split("\t")[0] in "the actor lovely"


def test_a_trimmed_model_is_scored_exported_and_used_with_its_own_tokenizer(recipe, quiet, command, tiny, tmp_path):
    model = save_with_letters(tiny.save_bert, tmp_path / "model", tiny.words)
    made = example_answers.articles(36)[28:]
    for article in made:  # longer texts, of words that train does not have
        article["paragraphs"][0]["context"] += " very end music" * 8
    example_answers.write(tmp_path / "dev.json", made)
    overrides = ["plan.vocabulary=task", f"predecessor.path={json.dumps(str(model))}"]
    record = compress(load_config(recipe, overrides), quiet)
    after, successor = record["successor"], tmp_path / "run" / "successor"
    assert after["vocabulary"]["tokens"] < after["vocabulary"]["tokens_before"]
    assert record["predecessor"]["score"] > 0.2
    scored = command("evaluate", successor, "--json")
    assert scored.code == 0, scored.err
    assert json.loads(scored.out) == {**after["metrics"], "score": after["score"]}
    written = command("predict", successor, "--out", tmp_path / "answered")
    assert written.code == 0, written.err
    answers = json.loads((tmp_path / "answered" / "dev.json").read_text())
    right = {row["id"]: row["answers"][0]["text"] for article in made for row in article["paragraphs"][0]["qas"]}
    share = sum(answers[key] == right[key] for key in right) / len(right)
    assert share == pytest.approx(after["metrics"]["exact_match"])
    exported = command("export", tmp_path / "run", "--check", "--json")
    assert exported.code == 0, exported.err
    assert json.loads(exported.out)["check"]["score"] == after["score"]
    analysed = command("analyse", tmp_path / "run", "--only", "errors,inside")
    assert analysed.code == 0, analysed.err


def test_methods_are_compared_question_by_question(recipe, command, tmp_path):
    folder = tmp_path / "compared"
    command("compare", recipe, "--methods", "solve,kd,finetune", "--seeds", 1, "--folder", folder)
    (table,) = json.loads((folder / "table.json").read_text())["tasks"]
    assert [row["label"] for row in table["rows"]] == ["predecessor", "solve", "kd", "finetune"]
    assert not any(row["failure"] for row in table["rows"])


def read(recipe, quiet, *overrides):
    config = load_config(recipe, list(overrides))
    return read_task(config, Loader().tokenizer(config.predecessor.path), quiet)


def test_dev_is_split_off_by_articles_and_train_keeps_no_text_of_dev(recipe, quiet, tmp_path):
    made = example_answers.articles(10)
    example_answers.write(tmp_path / "train.json", made)
    text = recipe.read_text()
    recipe.write_text("\n".join(line for line in text.split("\n") if not line.startswith("dev =")))
    task = read(recipe, quiet)
    titles = [{one.article for one in some} for some in (task.train_questions, task.dev_questions)]
    assert (len(titles[0]), len(titles[1]), titles[0] & titles[1]) == (8, 2, set())
    example_answers.write(tmp_path / "train.json", made[:1])
    with pytest.raises(DataError, match="train has questions on 1 text, too few to split dev off"):
        read(recipe, quiet)


def test_duplicates_texts_of_dev_and_misplaced_answers_are_dropped_and_counted(recipe, quiet, tmp_path):
    made = example_answers.articles(12)
    odd = json.loads(json.dumps(made[1]))
    odd["paragraphs"][0]["context"] = "plot " + odd["paragraphs"][0]["context"]
    example_answers.write(tmp_path / "dev.json", made[10:])
    example_answers.write(tmp_path / "train.json", [*made[:10], made[0], made[11], odd])
    task = read(recipe, quiet)
    assert task.dropped == {"duplicates": 2, "overlap": 2, "misplaced": 2}
    assert len(task.train_questions) == 20


def test_the_distance_from_the_predecessors_spans_is_over_tokens_that_are_not_padding():
    starts, ends = torch.tensor([[1.0, 2.0, 7.0], [0.0, 1.0, 3.0]]), torch.tensor([[0.5, 1.0, 7.0], [2.0, 1.0, 0.0]])
    kept = torch.tensor([[[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]], [[1.0, 1.0, 2.0], [0.0, 3.0, 0.0]]])
    output = {"start_logits": starts, "end_logits": ends, "loss": torch.tensor(2.0)}
    positions = {"start_positions": torch.tensor([0, 1]), "end_positions": torch.tensor([1, 2])}
    inputs = {"attention_mask": torch.tensor([[1, 1, 0], [1, 1, 1]]), **positions}
    found = distilling(Targets({"logits": kept.numpy()}, 0.0, on_disk=False), 0.25, 2.0)(
        lambda **given: output, inputs, torch.tensor([0, 1])
    )
    short = [kd_loss(one[:1, :2], kept[:1, side, :2], 2.0) for side, one in enumerate((starts, ends))]
    long = [kd_loss(one[1:], kept[1:, side], 2.0) for side, one in enumerate((starts, ends))]
    assert float(found) == pytest.approx(0.75 * 2 + 0.25 * float(sum(short + long)) / 4, rel=1e-5)


def test_what_cannot_be_is_refused(recipe, quiet):
    for override, reason in {
        "method.name=pkd": r"method\.name is 'pkd', which is for classes",
        "task.stride=20": r"task\.stride is 20, but beside a question",
    }.items():
        with pytest.raises(ConfigError, match=reason):
            preview(load_config(recipe, [override]), quiet, estimate=False)


def test_a_predecessor_that_finds_nothing_is_refused(recipe, quiet):
    task = read(recipe, quiet)

    def finds_the_first_words(batch):
        logits = -torch.arange(batch["input_ids"].shape[1]).expand(batch["input_ids"].shape).float()
        return {"start_logits": logits, "end_logits": logits}

    finds_the_first_words.tokenizer = None
    with pytest.raises(RunError, match="no better than nothing, or the whole text, as every answer"):
        task.check_predecessor(finds_the_first_words, "model")
