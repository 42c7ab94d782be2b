"""Runs whose successors keep only the tokens of the training texts; the tokenizer also has characters and unused words."""

import json
import string

import pytest
import torch
from rich.console import Console
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from plankwise.config import load_config
from plankwise.errors import ConfigError, DataError
from plankwise.run.analysis import AnalysisRequest, analyse
from plankwise.run.compress import compress
from plankwise.run.inference import evaluate
from vocabularies import save_with_letters
from workers import compress as compress_recipe
from workers import kill_when, start, wait

QUIET = Console(quiet=True)
LETTERS = string.ascii_lowercase
UNUSED = [f"unused{letter}" for letter in LETTERS]


@pytest.fixture
def model(tmp_path, tiny):
    """A classifier that is always right on the table, with 76 more tokens than its texts have."""
    return save_with_letters(tiny.save_expert, tmp_path / "expert", tiny.words, UNUSED)


@pytest.fixture
def settings(model):
    return [f"predecessor.path={json.dumps(str(model))}", "training.max_steps=4", "evaluation.estimate=false"]


def run(recipe, settings, folder, *more):
    return compress(load_config(recipe, [*settings, f"run.folder={json.dumps(str(folder))}", *more]), QUIET)


def answers(folder, texts):
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.inference_mode():
        return model.eval()(**tokenizer(texts, padding=True, return_tensors="pt")).logits


def test_a_trimmed_successor_answers_and_scores_as_the_whole_one(recipe, settings, tmp_path, tiny):
    whole = run(recipe, settings, tmp_path / "whole", "evaluation.latency=false")
    small = run(recipe, settings, tmp_path / "small", "plan.vocabulary=task")
    texts = [text for text, _ in tiny.make_rows(48)]
    for name in ("successor", "truncated"):
        told = small[name]["vocabulary"]
        rows = told["tokens_before"] - told["tokens"]
        assert rows == len(UNUSED)
        assert told["saved_mb"] == rows * 32 * 4 / 1e6
        assert small[name]["parameters"] == whole[name]["parameters"] - rows * 32
        assert small[name]["metrics"] == whole[name]["metrics"]
        assert torch.equal(answers(tmp_path / "small" / name, texts), answers(tmp_path / "whole" / name, texts))
        assert small[name]["multiply_adds"] > 0
        assert len(AutoTokenizer.from_pretrained(tmp_path / "small" / name)) == told["tokens"]
    assert "vocabulary" not in small["predecessor"]
    assert "vocabulary" not in whole["successor"]
    assert not small["timing"].get("uncounted")
    card = (tmp_path / "small" / "successor" / "README.md").read_text("utf-8")
    assert f"trimmed to {told['tokens']} of {told['tokens_before']} tokens" in card


def test_dev_texts_do_not_choose_and_are_encoded_by_the_successors_own_tokenizer(recipe, settings, tmp_path, model):
    dev = tmp_path / "dev.csv"
    dev.write_text("sentence,label\nunuseda film is fine,positive\nunusedb plot was dull,negative\n", "utf-8")
    record = run(recipe, settings, tmp_path / "run", f"task.dev={json.dumps(str(dev))}", "evaluation.latency=false")
    small = run(
        recipe, settings, tmp_path / "small", f"task.dev={json.dumps(str(dev))}", "plan.vocabulary=task"
    )  # timed, too
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "small" / "successor")
    assert tokenizer.tokenize("unuseda film") == ["u", *(f"##{letter}" for letter in "nuseda"), "film"]
    assert small["predecessor"]["metrics"] == record["predecessor"]["metrics"]
    config = load_config(tmp_path / "small" / "config.toml", [f"predecessor.path={tmp_path / 'small' / 'successor'}"])
    alone = evaluate(config, QUIET)
    assert {name: alone[name] for name in small["successor"]["metrics"]} == small["successor"]["metrics"]


def test_a_text_file_and_a_minimum_count_say_what_is_kept(recipe, settings, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("unusedc unusedc\nunusedd\n", "utf-8")
    sources = f'plan.vocabulary=["task", {json.dumps(str(corpus))}]'
    quick = ["evaluation.latency=false", "evaluation.truncated=false"]
    run(recipe, settings, tmp_path / "run", sources, "plan.vocabulary_min_count=2", *quick)
    found = AutoTokenizer.from_pretrained(tmp_path / "run" / "successor").get_vocab()
    assert "unusedc" in found
    assert "unusedd" not in found
    only = load_config(recipe, [f"plan.vocabulary={corpus}"])
    assert only.plan.vocabulary == [str(corpus)]  # one text stands for a list of one


def test_a_trimmed_run_is_analysed_with_both_tokenizers(recipe, settings, tmp_path):
    folder = tmp_path / "run"
    record = run(recipe, settings, folder, "plan.vocabulary=task", "evaluation.latency=false")
    request = AnalysisRequest(batch_sizes=(1,), predictions=1, sentence="unuseda film is fine")
    found = analyse(folder, request, QUIET)["analysis"]
    assert found["inside"]["impact"]["baseline"] == record["predecessor"]["score"]
    assert found["inside"]["paths"]["tokens"][1:4] == ["u", "##n", "##u"]
    assert found["inside"]["cka"]["tokens"] > 0
    assert found["errors"]
    assert None not in found["cost"]["peak_mb"].values()
    assert set(found["cost"]["multiply_adds"]) == {"predecessor", "successor", "truncated"}


def test_a_run_killed_while_it_measures_a_trimmed_successor_ends_with_the_very_same(recipe, settings, tmp_path):
    quick = [*settings, "plan.vocabulary=task", "evaluation.latency=false", "evaluation.truncated=false"]
    whole = start(compress_recipe, str(recipe), [*quick, f"run.folder={tmp_path / 'whole'}"])
    worker = start(compress_recipe, str(recipe), quick)
    assert kill_when(worker, lambda: (tmp_path / "run" / "successor").exists())
    assert wait(start(compress_recipe, str(recipe), quick)) == 0
    assert wait(whole) == 0
    folders = [tmp_path / name / "successor" for name in ("run", "whole")]
    for file in ("model.safetensors", "tokenizer.json"):
        assert len({(folder / file).read_bytes() for folder in folders}) == 1
    records = [json.loads((folder.parent / "record.json").read_text("utf-8"))["successor"] for folder in folders]
    assert records[0]["vocabulary"] == records[1]["vocabulary"]
    assert records[0]["metrics"] == records[1]["metrics"]


def test_a_comparison_trims_its_rows_and_a_study_that_does_not_says_so(command, recipe, settings, tmp_path):
    place = ["--seeds", 1, "--folder", tmp_path / "compared"]
    quick = [*settings, "plan.vocabulary=task"]
    result = command("compare", recipe, *quick, "--methods", "finetune", *place)
    assert result.code == 0, result.err
    rows = json.loads((tmp_path / "compared" / "table.json").read_text("utf-8"))["tasks"][0]["rows"]
    folder = next((tmp_path / "compared").rglob("successor"))
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    assert model.config.vocab_size == len(AutoTokenizer.from_pretrained(folder))
    own = [row["parameters"] for row in rows if row["parameters"] == sum(one.numel() for one in model.parameters())]
    assert len(own) == 1
    study = command("study", "impact", recipe, *quick)
    assert study.code == 2
    assert "study impact does not trim successors" in study.err


def test_what_cannot_be_trimmed_is_said_before_anything_is_trained(recipe, settings, tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(DataError, match=r"plan.vocabulary is .*nowhere.txt, which cannot be read"):
        run(recipe, settings, folder, f"plan.vocabulary={tmp_path / 'nowhere.txt'}")
    text = tmp_path / "corpus.txt"
    text.write_text("a film is fine\n\nthe plot was dull\n\n" * 20, "utf-8")
    task = f'task={{ name = "text", path = {json.dumps(str(text))} }}'
    reason = r"plan.vocabulary is \['task'\], but the task is on text, where perplexity is over tokens.*plankwise trim"
    with pytest.raises(ConfigError, match=reason):
        run(recipe, settings, folder, task, "plan.vocabulary=task", 'method={ name = "finetune" }')
    assert not folder.exists()
