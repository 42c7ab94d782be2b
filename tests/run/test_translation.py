"""Translation from parallel files to a smaller translator: separate plans for encoder and decoder, scored by what is written."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from transformers import AutoModelForSeq2SeqLM

from plankwise.config import load_config
from plankwise.context import open_context
from plankwise.errors import ConfigError, RunError
from plankwise.models.plans import assemble, build_successors, make_plan, take_out
from plankwise.run.compress import compress
from plankwise.run.inputs import read_run

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def example():
    path = Path(__file__).parent.parent / "task_kinds" / "example_translation.py"
    spec = importlib.util.spec_from_file_location("example_translation", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def recipe(tmp_path, example):
    task = example.section(tmp_path)
    model = example.model(tmp_path / "model")
    path = tmp_path / "recipe.toml"
    path.write_text(
        f"""
        [run]
        folder = {json.dumps(str(tmp_path / "run"))}
        [predecessor]
        path = {json.dumps(str(model))}
        finetune = true
        training = {{ max_steps = 60, learning_rate = 5e-3, batch_size = 16, evaluate_every = 60 }}
        [task]
        name = "translation"
        train = {json.dumps(task["train"])}
        dev = {json.dumps(task["dev"])}
        test = {json.dumps(task["dev"][0])}
        [plan]
        successors = 2
        [training]
        max_steps = 4
        batch_size = 16
        max_length = 16
        [evaluation]
        latency_predictions = 1
        latency_batch_sizes = [1]
        truncated = false
        """,
        "utf-8",
    )
    return path


def test_a_translator_is_trained_compressed_scored_and_used(recipe, tmp_path, command):
    record = compress(load_config(recipe, ["plan.chains=['model.encoder.layers']"]), QUIET)
    assert list(record["stages"]) == ["predecessor", "solving", "replacing"]
    before, after = record["predecessor"]["metrics"], record["successor"]["metrics"]
    assert before["bleu"] > 5
    assert record["retained"] == pytest.approx(after["bleu"] / before["bleu"])
    assert set(after) == {"bleu", "chrf"}
    folder = tmp_path / "run" / "successor"
    model, info = AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"]
    assert (model.config.encoder_layers, model.config.decoder_layers) == (2, 2)
    result = command("evaluate", folder, "--out", tmp_path / "metrics.json")
    assert result.code == 0, result.err
    assert json.loads((tmp_path / "metrics.json").read_text())["bleu"] == pytest.approx(after["bleu"])
    assert command("predict", folder, "--out", tmp_path / "written").code == 0
    written = (tmp_path / "written" / "dev.txt").read_text("utf-8").splitlines()
    assert len(written) == 16
    (tmp_path / "new.csv").write_text("id,text\n1,the ship sees a plank and the ship\n", "utf-8")
    result = command(
        "predict", folder, "--table", tmp_path / "new.csv", "--text", "text", "--out", tmp_path / "new-de.csv"
    )
    assert result.code == 0, result.err
    assert (tmp_path / "new-de.csv").read_text("utf-8").splitlines()[0] == "id,text,translation"
    assert "AutoModelForSeq2SeqLM.from_pretrained" in (folder / "README.md").read_text("utf-8")


@pytest.mark.parametrize("method", ["drop", "finetune"])
def test_encoder_and_decoder_have_plans_of_their_own(method, recipe, tmp_path):
    slots = "[{path='model.encoder.layers', span=[0, 1, 2]}, {path='model.decoder.layers', span=[0, 1]}]"
    path = tmp_path / "slots.toml"
    path.write_text(recipe.read_text("utf-8").replace("successors = 2", f"slots = {slots}"), "utf-8")
    more = [f"method.name={method}", "evaluation.latency=false", "predecessor.training.max_steps=40"]
    record = compress(load_config(path, more), QUIET)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "run" / "successor")
    assert (model.config.encoder_layers, model.config.decoder_layers) == (2, 1)
    if method == "drop":
        assert {chain: len(gone) for chain, gone in record["dropped"].items()} == {
            "model.encoder.layers": 2,
            "model.decoder.layers": 1,
        }


def test_a_hybrid_writes_what_its_successor_writes_with_a_cache(recipe, tmp_path):
    config = load_config(recipe, ["plan.successors=1"])
    run = read_run(config, open_context(QUIET, tmp_path / "run", 0))
    model = run.load(config.predecessor.path)
    plan = make_plan(model, config.plan)
    hybrid = assemble(model, plan, build_successors(model, plan, init="lower", seed=0))
    batch = run.task.encode(run.task.texts(4))
    given = {name: batch[name] for name in ("input_ids", "attention_mask")}
    wanted = hybrid.generate(**given, max_new_tokens=6, do_sample=False)
    successor = take_out(hybrid)
    for use_cache in (True, False):
        assert torch.equal(successor.generate(**given, max_new_tokens=6, do_sample=False, use_cache=use_cache), wanted)


def test_the_score_is_bleu_of_what_is_written_and_a_perfect_text_scores_1(recipe, tmp_path):
    run = read_run(load_config(recipe, []), open_context(QUIET, tmp_path / "run", 0))
    right = np.array([pair.target for pair in run.task.dev_pairs])
    assert run.task.score_outputs({"dev": right}) == pytest.approx({"bleu": 100, "chrf": 100, "score": 1})


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["method.name=kd"], "method.name is 'kd', which is not offered for translation"),
        (["method.alpha=0.5"], "nor is replacing with alpha"),
        (["method.name=solve", "plan.solving.head=labels"], "the task is translation, which has none"),
        (["plan.fitting.texts=more.txt"], "a decoder needs translations too; take it out"),
        (["task.train=['one.txt']"], "task.train lists 1 files; give two"),
        (["task.target=source"], "task.target is 'source', which is task.source too"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(overrides, said, recipe, tmp_path):
    with pytest.raises(ConfigError, match=said):
        compress(load_config(recipe, overrides), QUIET)
    assert not (tmp_path / "run").exists()


def test_an_encoder_is_no_translator(recipe, tiny_model_folder):
    with pytest.raises(ConfigError, match="is a bert, which does not read with an encoder and write with a decoder"):
        compress(load_config(recipe, [f"predecessor.path={tiny_model_folder}"]), QUIET)


def test_a_predecessor_that_does_not_translate_is_refused(recipe):
    with pytest.raises(RunError, match="no better than the texts themselves, untranslated"):
        compress(load_config(recipe, ["predecessor.finetune=false"]), QUIET)
