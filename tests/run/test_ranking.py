"""Runs on rankings, from a table of pairs or triples to a smaller cross-encoder that its library loads."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

import plankwise
from plankwise.config import load_config
from plankwise.models.loading import Loader
from plankwise.run.compress import compress

sys.path.insert(0, str(Path(__file__).parents[1] / "task_kinds"))
import example_ranking

PLAIN = """
import sys
from transformers import AutoModelForSequenceClassification, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1]).eval()
found = model(**tokenizer(sys.argv[2], sys.argv[3], return_tensors="pt"))
assert "plankwise" not in sys.modules
print(tuple(found.logits.shape), model.config.num_hidden_layers)
"""
QUIET = Console(quiet=True)


@pytest.fixture
def recipe(tmp_path, tiny_model_folder):
    section = example_ranking.section(tmp_path)
    lines = [f"{key} = {json.dumps(value)}" for key, value in section.items()]
    path = tmp_path / "ranked.toml"
    path.write_text(
        "\n".join(["[task]", *lines, f"test = {json.dumps(section['dev'])}"])
        + f"""
        [run]
        folder = {json.dumps(str(tmp_path / "run"))}
        [predecessor]
        path = {json.dumps(str(tiny_model_folder))}
        training = {{ max_steps = 40, learning_rate = 5e-3, batch_size = 16 }}
        [plan]
        successors = 2
        [training]
        max_steps = 4
        evaluate_every = 2
        batch_size = 8
        max_length = 24
        [evaluation]
        estimate = false
        truncated = false
        latency_predictions = 1
        latency_batch_sizes = [1]
        """,
        "utf-8",
    )
    return path


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_run_leaves_a_cross_encoder(recipe, command, tmp_path):
    record = compress(load_config(recipe, ["method.alpha=0.5"]), QUIET)
    assert record["task"]["score"] == ["ndcg@10"]
    assert record["task"]["queries"] == {"dev": 16}
    assert record["predecessor"]["score"] > 0.9
    assert record["predecessor"]["beyond_constant"]["shown"]
    after = record["successor"]
    assert set(after["metrics"]) == {"ndcg@10", "mrr@10"}

    successor = tmp_path / "run" / "successor"
    scored = command("evaluate", successor, "--json")
    assert scored.code == 0, scored.err
    found = json.loads(scored.out)
    assert {key: found[key] for key in ("ndcg@10", "mrr@10", "score")} == {**after["metrics"], "score": after["score"]}

    written = command("predict", successor, "--out", tmp_path / "scored")
    assert written.code == 0, written.err
    rows = rows_of(tmp_path / "scored" / "dev.csv")
    ranks = [1 / int(row["rank"]) for row in rows if row["score"] == "1"]
    assert np.mean(ranks) == pytest.approx(after["metrics"]["mrr@10"])
    out, texts = tmp_path / "out.csv", ("--text", "query", "--text", "text")
    table = example_ranking.write(tmp_path / "new.csv", "query,text", [row[:2] for row in example_ranking.pairs([3])])
    assert command("predict", successor, "--table", table, *texts, "--out", out).code == 0
    scores = [float(row["score"]) for row in rows_of(out)]
    refused = command("predict", successor, "--table", table, "--text", "text", "--out", out)
    assert refused.code == 2
    assert "--text is given 1 time; name the column of the queries" in " ".join(refused.err.split())

    plain = [sys.executable, "-c", PLAIN, str(successor), "a film", "the plot"]
    assert subprocess.run(plain, capture_output=True, text=True, check=True).stdout.split() == ["(1,", "1)", "2"]
    assert "CrossEncoder(" in (successor / "README.md").read_text()
    library = pytest.importorskip("sentence_transformers")
    expected = library.CrossEncoder(str(successor)).predict([row[:2] for row in example_ranking.pairs([3])])
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_a_finished_run_is_exported_and_looked_at(recipe, command, tmp_path):
    pytest.importorskip("onnxruntime")
    compress(load_config(recipe, ["method.name=solve"]), QUIET)
    exported = command("export", tmp_path / "run", "--to", "onnx", "--check", "--json")
    assert exported.code == 0, exported.err
    assert json.loads(exported.out)["usage"] == '"a query" "a text" "another one"'
    found = json.loads(exported.out)["check"]
    assert found["score"] == pytest.approx(found["torch_score"], abs=1e-6)
    assert found["equal_answers"] is None
    (script,) = (tmp_path / "run").rglob("predict.py")
    texts = ["dull film", "great film"]
    said = subprocess.run([sys.executable, script, "a film", *texts], capture_output=True, text=True, check=True)
    scores, ranked = zip(*(line.split("\t") for line in said.stdout.splitlines()), strict=True)
    assert sorted(ranked) == sorted(texts)
    assert float(scores[0]) >= float(scores[1])

    looked = command("analyse", tmp_path / "run", "--only", "errors")
    assert looked.code == 0, looked.err
    assert "16 queries of dev" in looked.out + looked.err
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert record["analysis"]["errors"]["examples"] == 16


def test_methods_are_compared_query_by_query_on_triples(recipe, command, tmp_path):
    file = example_ranking.write(
        tmp_path / "triples.csv", "query,positive,negative", example_ranking.triples(range(30))
    )
    keys = [f"task.train={file}", "task.positive=positive", "task.negative=negative"]
    folder = tmp_path / "compared"
    compared = command("compare", recipe, *keys, "--methods", "solve,kd,pkd", "--seeds", 1, "--folder", folder)
    assert compared.code == 0, compared.err
    (table,) = json.loads((folder / "table.json").read_text())["tasks"]
    rows = {row["label"]: row for row in table["rows"]}
    assert list(rows) == ["predecessor", "solve", "kd", "pkd"]
    assert not any(row["failure"] for row in rows.values())
    assert rows["predecessor"]["median"] > 0.9
    assert any(note.startswith("mrr@10") for note in table["notes"])


def test_three_lines_make_a_smaller_cross_encoder(tiny, tmp_path):
    from transformers import Trainer, TrainingArguments

    model_folder = tiny.save_bert(tmp_path / "ranker", names=("score",))
    model = Loader().trained(str(model_folder))
    model.config.problem_type = "multi_label_classification"  # binary cross-entropy of the one logit
    tokenizer = Loader().tokenizer(str(model_folder))
    rows = [
        {**tokenizer(query, text, padding="max_length", max_length=16), "labels": [float(score)]}
        for query, text, score in example_ranking.pairs(range(2))
    ]
    ship = plankwise.hybrid(model, successors=2, schedule=plankwise.Linear(start=0.5, full_at=0.5))
    arguments = TrainingArguments(
        str(tmp_path / "out"), max_steps=2, report_to="none", use_cpu=True, save_strategy="no", disable_tqdm=True
    )
    Trainer(ship, arguments, train_dataset=rows, callbacks=[ship.callback()]).train()
    ship.collapse().save_pretrained(tmp_path / "successor")
    again = Loader().trained(str(tmp_path / "successor"))
    assert again.config.num_hidden_layers == 2
    weights = ship.collapse().state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in again.state_dict().items())
    library = pytest.importorskip("sentence_transformers")
    ranked = library.CrossEncoder(str(tmp_path / "successor")).rank("a film", ["dull plot", "great film"])
    assert {row["corpus_id"] for row in ranked} == {0, 1}
