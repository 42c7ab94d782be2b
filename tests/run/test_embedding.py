"""Runs on texts without labels, from a file of them to a smaller sentence encoder that its library loads."""

import json

import numpy as np
import pytest
from rich.console import Console
from transformers import AutoModel

from plankwise.config import load_config
from plankwise.errors import ConfigError, DataError
from plankwise.models.loading import Loader
from plankwise.models.sentences import load_sentence_encoder
from plankwise.report.card import make_card
from plankwise.run.compress import compress
from plankwise.run.estimating import preview
from plankwise.run.finetune import finetune
from vocabularies import save_with_letters

WORDS = ("fine", "great", "dull", "awful", "film", "plot", "actor", "scene", "music", "end")
BESIDE = {"sts_spearman", "ndcg@10", "recall@1"}


@pytest.fixture(scope="module")
def model_folder(tiny, tmp_path_factory):
    """An encoder whose blocks do more than hand their states through."""
    return tiny.save_bert(tmp_path_factory.mktemp("models") / "encoder", initializer_range=0.3)


@pytest.fixture
def recipe(tmp_path, model_folder):
    """120 texts of three words, and files to measure by, for a run of six steps."""
    texts = [" ".join(WORDS[(index // 10**power) % 10] for power in range(3)) for index in range(0, 960, 8)]
    (tmp_path / "texts.csv").write_text("\n".join(["id,text", *(f"{n},{text}" for n, text in enumerate(texts))]))
    (tmp_path / "sts.tsv").write_text("5\tfine film\tgreat film\n1\tfine film\tawful end\n3\ta plot\tthe plot\n")
    (tmp_path / "beir" / "qrels").mkdir(parents=True)
    rows = {"corpus": {"a": "a fine film", "b": "a dull plot"}, "queries": {"1": "great film", "2": "weak plot"}}
    for name, found in rows.items():
        lines = [json.dumps({"_id": key, "text": text}) for key, text in found.items()]
        (tmp_path / "beir" / f"{name}.jsonl").write_text("\n".join(lines))
    (tmp_path / "beir" / "qrels" / "test.tsv").write_text("1\ta\t1\n2\tb\t1\n")
    path = tmp_path / "vectors.toml"
    path.write_text(
        f"""
        [run]
        folder = {json.dumps(str(tmp_path / "run"))}
        [predecessor]
        path = {json.dumps(str(model_folder))}
        [task]
        name = "embedding"
        path = {json.dumps(str(tmp_path / "texts.csv"))}
        column = "text"
        dev_share = 0.3
        sts = {json.dumps(str(tmp_path / "sts.tsv"))}
        retrieval = {json.dumps(str(tmp_path / "beir"))}
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


def test_a_run_leaves_a_sentence_encoder_that_is_scored_by_its_predecessor_and_used_by_its_library(
    recipe, quiet, command, tmp_path
):
    record = compress(load_config(recipe, []), quiet)
    assert list(record["stages"]) == ["solving", "replacing", "truncated"]
    assert record["predecessor"]["score"] == record["predecessor"]["metrics"]["neighbours"] == 1
    assert record["predecessor"]["metrics"]["cosine"] == pytest.approx(1)
    after = record["successor"]
    assert record["retained"] == after["score"] < 1
    assert set(after["metrics"]) >= BESIDE
    assert record["targets"]["names"] == ["sentence_embedding"]
    assert "eval_sts_spearman" not in record["stages"]["replacing"]["history"][-1]
    assert "SentenceTransformer(" in make_card(record)

    successor = tmp_path / "run" / "successor"
    assert AutoModel.from_pretrained(successor).config.num_hidden_layers == 2
    scored = command("evaluate", successor, "--json")
    assert scored.code == 0, scored.err
    assert json.loads(scored.out) == {**after["metrics"], "score": after["score"]}

    out = tmp_path / "vectors.npy"
    written = command("predict", successor, "--table", tmp_path / "texts.csv", "--text", "text", "--out", out)
    assert written.code == 0, written.err
    library = pytest.importorskip("sentence_transformers")
    texts = [line.partition(",")[2] for line in (tmp_path / "texts.csv").read_text().splitlines()[1:]]
    expected = library.SentenceTransformer(str(successor)).encode(texts)
    np.testing.assert_allclose(np.load(out), expected, atol=1e-6)

    (tmp_path / "texts.txt").write_text("\n".join(texts))
    trimmed = command("trim", successor, "--vocabulary", tmp_path / "texts.txt", "--out", tmp_path / "trimmed")
    assert trimmed.code == 0, trimmed.err
    assert (library.SentenceTransformer(str(tmp_path / "trimmed")).encode(texts) == expected).all()


def test_a_trimmed_encoder_is_scored_exported_and_used_with_its_own_tokenizer(recipe, quiet, command, tiny, tmp_path):
    model = save_with_letters(tiny.save_bert, tmp_path / "model", tiny.words, initializer_range=0.3)
    path = f"predecessor.path={json.dumps(str(model))}"
    place = f"run.folder={json.dumps(str(tmp_path / 'whole'))}"
    whole = compress(load_config(recipe, [path, place, "evaluation.latency=false"]), quiet)
    record = compress(load_config(recipe, [path, "plan.vocabulary=task"]), quiet)
    told, after = record["successor"]["vocabulary"], record["successor"]
    assert told["tokens"] < told["tokens_before"]
    assert not {"lovely", "weak"} & set(Loader().tokenizer(str(tmp_path / "run" / "successor")).get_vocab())
    for name in ("neighbours", "cosine", "pairs_spearman"):  # dev has no other words; the files beside do
        assert after["metrics"][name] == pytest.approx(whole["successor"]["metrics"][name], abs=1e-6)

    successor, library = tmp_path / "run" / "successor", pytest.importorskip("sentence_transformers")
    scored = command("evaluate", successor, "--json")
    assert scored.code == 0, scored.err
    assert json.loads(scored.out) == pytest.approx({**after["metrics"], "score": after["score"]}, abs=1e-4)
    out = tmp_path / "vectors.npy"
    written = command("predict", successor, "--table", tmp_path / "texts.csv", "--text", "text", "--out", out)
    assert written.code == 0, written.err
    encoder = library.SentenceTransformer(str(successor))
    assert len(encoder.tokenizer) == told["tokens"]
    texts = [line.partition(",")[2] for line in (tmp_path / "texts.csv").read_text().splitlines()[1:]]
    np.testing.assert_allclose(np.load(out), encoder.encode(texts), atol=1e-6)

    exported = command("export", tmp_path / "run", "--check", "--json")
    assert exported.code == 0, exported.err
    found = json.loads(exported.out)["check"]
    assert found["score"] == found["torch_score"] == pytest.approx(after["score"])
    smaller = ("--vocabulary", "task", "--out", tmp_path / "small")
    exported = command("export", tmp_path / "whole", "--check", "--json", *smaller)
    assert exported.code == 0, exported.err
    assert json.loads(exported.out)["check"]["score"] == pytest.approx(after["score"])
    analysed = command("analyse", tmp_path / "run", "--only", "errors,inside")
    assert analysed.code == 0, analysed.err


def test_methods_are_compared_text_by_text_with_other_metrics_beside(recipe, command, tmp_path):
    folder, row = tmp_path / "compared", ("--variant", "mobilebert: method.name=mobilebert method.alpha=0")
    command("compare", recipe, "--methods", "solve,kd,finetune", *row, "--seeds", 1, "--folder", folder)
    (table,) = json.loads((folder / "table.json").read_text())["tasks"]
    rows = {row["label"]: row for row in table["rows"]}
    assert list(rows) == ["predecessor", "solve", "kd", "finetune", "mobilebert"]
    assert not any(row["failure"] for row in rows.values())
    assert rows["predecessor"]["median"] == 1
    compared = [row["p"] for row in rows.values() if row["p"] is not None]
    assert compared
    assert all(0 < p <= 1 for p in compared)
    notes = [note.partition(":")[0] for note in table["notes"]]
    assert [name for name in notes if name in BESIDE | {"cosine"}] == ["cosine", "sts_spearman", "ndcg@10"]
    steps = {cell["label"]: cell["steps"] for cell in table["cells"]}
    assert steps == {"solve": 0, "kd": 6, "finetune": 6, "mobilebert": 6}


def test_training_brings_vectors_nearer_to_the_predecessors(recipe, quiet):
    overrides = ["training.max_steps=40", "training.evaluate_every=1", "training.learning_rate=1e-3"]
    record = compress(load_config(recipe, ["method.name=finetune", *overrides, "evaluation.latency=false"]), quiet)
    history = [entry["eval_cosine"] for entry in record["stages"]["truncated"]["history"] if "eval_cosine" in entry]
    assert history[-1] > history[0]


def test_an_exported_encoder_gives_the_same_vectors(tiny_model_folder, tmp_path):
    pytest.importorskip("onnxruntime")
    from plankwise.export import export_model
    from plankwise.runtimes import open_predictor

    model = load_sentence_encoder(Loader(), str(tiny_model_folder), pooling="cls").eval()
    tokenizer = Loader().tokenizer(str(tiny_model_folder))
    export_model(model, tokenizer, tmp_path / "out")
    batch = tokenizer(["a film", "the plot is very dull"], padding=True, return_tensors="pt")
    found = open_predictor("onnx", str(tmp_path / "out"), None)(batch)
    expected = model(**batch)["sentence_embedding"].detach()
    np.testing.assert_allclose(found["sentence_embedding"], expected, atol=1e-5)
    with pytest.raises(ConfigError, match="the model is a sentence encoder, whose own folder"):
        export_model(model, tokenizer, tmp_path / "other", format="torch")


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("method.name=pkd", r"method\.name is 'pkd', which needs labels or logits"),
        ("method.alpha=0.5", r"method\.alpha is 0\.5, a weight of the predecessor's logits"),
        ("predecessor.finetune=true", "has no labels to train a predecessor on"),
        ("method.name=solve plan.solving.head=labels", r"plan\.solving\.head is 'labels', but the task is on vectors"),
        ("training.quantising.share=0.2", "training for int8 is not offered for vectors"),
    ],
)
def test_what_needs_labels_is_refused(override, reason, recipe, quiet):
    with pytest.raises(ConfigError, match=reason):
        preview(load_config(recipe, override.split()), quiet, estimate=False)


def test_there_is_nothing_to_finetune_on_and_too_few_texts_are_told(recipe, quiet):
    with pytest.raises(ConfigError, match="use `plankwise compress`"):
        finetune(load_config(recipe, []), quiet)
    with pytest.raises(DataError, match="held-out ones, of which 20 are needed"):
        preview(load_config(recipe, ["task.dev_share=0.01"]), quiet, estimate=True)


def test_a_prompt_of_the_recipe_stands_before_every_text(recipe, quiet):
    from plankwise.task_kinds import read_task

    config = load_config(recipe, ["task.prompt='film '"])
    task = read_task(config, Loader().tokenizer(config.predecessor.path), quiet)
    first = task.dev_texts[0]
    assert task.tokenizer.decode(task.dev["dev"].dataset[0]["input_ids"]) == f"[CLS] film {first} [SEP]"
    assert task.encode([(first,)])["input_ids"][0].tolist() == task.dev["dev"].dataset[0]["input_ids"]
    assert not set(task.train_texts) & set(task.dev_texts)
