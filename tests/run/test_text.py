"""Runs on unlabelled text, from a corpus to a compressed language model."""

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSequenceClassification

from plankwise.config import load_config
from plankwise.context import open_context
from plankwise.errors import ConfigError, DataError, RunError
from plankwise.run.compress import compress
from plankwise.run.inference import evaluate
from plankwise.run.inputs import read_run
from plankwise.run.training import train_whole
from workers import compress as compress_recipe
from workers import kill_when, last_step, start, wait


@pytest.fixture
def corpus(tmp_path, tiny):
    path = tmp_path / "corpus.txt"
    rows = [text for text, _ in tiny.make_rows(300)]
    path.write_text(
        "\n".join(f"{first}. {second}." for first, second in zip(rows[::2], rows[1::2], strict=True)), "utf-8"
    )
    return path


@pytest.fixture
def text_recipe(tmp_path, corpus, tiny_model_folder):
    path = tmp_path / "domain.toml"
    path.write_text(
        f"""
        [run]
        folder = {json.dumps(str(tmp_path / "run"))}
        [predecessor]
        path = {json.dumps(str(tiny_model_folder))}
        training = {{ max_steps = 30, learning_rate = 3e-3, batch_size = 8 }}
        [task]
        name = "text"
        path = {json.dumps(str(corpus))}
        dev_share = 0.2
        [training]
        max_steps = 6
        evaluate_every = 3
        batch_size = 8
        max_length = 16
        [evaluation]
        latency_predictions = 1
        latency_batch_sizes = [1]
        """,
        "utf-8",
    )
    return path


@pytest.fixture
def quiet_console():
    return Console(quiet=True)


@pytest.fixture
def finished(text_recipe, quiet_console):
    return compress(load_config(text_recipe, []), quiet_console)


def test_text_comes_in_and_a_compressed_masked_language_model_comes_out(finished, tmp_path):
    record = finished
    assert record["made_head"] is True
    assert list(record["stages"]) == ["head", "predecessor", "solving", "replacing", "truncated"]
    assert record["stages"]["head"]["max_steps"] == 6
    assert record["stages"]["predecessor"]["max_steps"] == 24
    before, after = record["predecessor"]["metrics"]["perplexity"], record["successor"]["metrics"]["perplexity"]
    assert record["retained"] == pytest.approx(before / after)
    assert record["predecessor"]["score"] == pytest.approx(1 / before)
    model, info = AutoModelForMaskedLM.from_pretrained(tmp_path / "run" / "successor", output_loading_info=True)
    assert not info["missing_keys"]
    assert model.config.num_hidden_layers == 2
    _, info = AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "run" / "successor", output_loading_info=True
    )
    assert not [name for name in info["missing_keys"] if "encoder" in name or "embeddings" in name]
    assert not list((tmp_path / "run").rglob("*.arrow"))


def test_the_head_learns_alone_first(text_recipe, quiet_console, tiny_model_folder):
    context = open_context(quiet_console, Path("unused"), 0)
    config = load_config(text_recipe, ["task.head_share=1"])
    run = read_run(config, replace(context, folder=Path(config.run.folder)))
    run.task.lay_out(run.folder, quiet_console)
    model = run.load(str(tiny_model_folder))
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    stages = train_whole(run, model, "predecessor", new_head=True)
    changed = {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    assert list(stages) == ["head"]
    assert changed
    assert all(name.startswith("cls.") for name in changed)


def test_evaluating_the_successor_gives_the_perplexity_of_the_record(finished, tmp_path, command):
    result = command("evaluate", tmp_path / "run" / "successor", "--out", tmp_path / "metrics.json")
    assert result.code == 0, result.err
    found = json.loads((tmp_path / "metrics.json").read_text())
    assert found["perplexity"] == pytest.approx(finished["successor"]["metrics"]["perplexity"], rel=1e-6)


def test_a_model_with_a_head_is_not_trained_first(finished, text_recipe, quiet_console, tmp_path):
    given = str(tmp_path / "run" / "predecessor")
    overrides = [f"predecessor.path={given}", f"run.folder={tmp_path / 'again'}", "evaluation.truncated=false"]
    record = compress(load_config(text_recipe, overrides), quiet_console)
    assert list(record["stages"]) == ["solving", "replacing"]
    assert record["made_head"] is False
    assert record["predecessor"]["metrics"]["perplexity"] == pytest.approx(
        finished["predecessor"]["metrics"]["perplexity"], rel=1e-6
    )


def test_a_run_that_is_killed_and_resumed_ends_with_the_same_weights(text_recipe, tmp_path):
    overrides = ["evaluation.truncated=false", "evaluation.latency=false", "evaluation.estimate=false"]
    folder = f"run.folder={tmp_path / 'killed'}"
    whole = start(compress_recipe, str(text_recipe), overrides)
    worker = start(compress_recipe, str(text_recipe), [*overrides, folder, "training.save_every=1"])
    stage = tmp_path / "killed" / "checkpoints" / "replacing"
    assert kill_when(worker, lambda: last_step(stage) >= 3)
    assert wait(start(compress_recipe, str(text_recipe), [*overrides, folder, "training.save_every=1"])) == 0
    assert wait(whole) == 0
    first, second = (
        AutoModelForMaskedLM.from_pretrained(tmp_path / name / "successor").state_dict() for name in ("run", "killed")
    )
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_parts_of_a_step_learn_what_the_whole_step_learns(text_recipe, quiet_console, tmp_path, tiny):
    """However many tokens each of them has to predict."""
    encoder = tiny.save_bert(tmp_path / "encoder", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config = load_config(text_recipe, [f"predecessor.path={encoder}"])
    run = read_run(config, open_context(quiet_console, tmp_path / "run", 0))
    run.task.lay_out(run.folder, quiet_console)
    ends = []
    for accumulation in (1, 3):
        torch.manual_seed(0)  # the new head's weights
        model = run.load(str(encoder))
        options = config.training.model_copy(update={"accumulation": accumulation, "learning_rate": 1e-3})
        run.stage(f"in-{accumulation}", options).run(model)
        ends.append(model.state_dict())
    assert all(torch.allclose(value, ends[1][name], atol=1e-5) for name, value in ends[0].items())


@pytest.mark.parametrize("objective", ["mlm+nsp", "mlm+sop"])
def test_pairs_of_sentences_can_be_learnt_beside(objective, text_recipe, quiet_console):
    record = compress(
        load_config(text_recipe, [f"task.objective={objective}", "evaluation.truncated=false"]), quiet_console
    )
    assert 0 <= record["successor"]["metrics"]["pair_accuracy"] <= 1
    assert math.isfinite(record["successor"]["metrics"]["perplexity"])


def test_a_decoder_is_compressed_on_the_next_token(text_recipe, quiet_console, tmp_path, tiny):
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = tmp_path / "gpt2"
    torch.manual_seed(0)
    GPT2LMHeadModel(
        GPT2Config(vocab_size=len(tiny.words), n_embd=32, n_layer=4, n_head=2, n_positions=64)
    ).save_pretrained(folder)
    tiny.save_tokenizer(folder)
    overrides = [
        "task.objective=clm",
        f"predecessor.path={folder}",
        "predecessor.finetune=true",
        "evaluation.truncated=false",
    ]
    record = compress(load_config(text_recipe, overrides), quiet_console)
    assert list(record["stages"]) == ["predecessor", "solving", "replacing"]
    assert record["predecessor"]["metrics"]["perplexity"] < len(tiny.words)
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "successor").config.n_layer == 2


def test_the_fitted_start_and_layerdrop_work_on_text_too(text_recipe, quiet_console, tmp_path):
    overrides = ["evaluation.truncated=false", "evaluation.latency=false", "task.whole_words=true", "task.pack=false"]
    record = compress(load_config(text_recipe, [*overrides, "plan.init=fitted"]), quiet_console)
    assert max(record["fitting"]["relative_error"]) < 1
    given = f"predecessor.path={tmp_path / 'run' / 'predecessor'}"
    more = [given, "method.name=layerdrop", f"run.folder={tmp_path / 'drop'}"]
    assert compress(load_config(text_recipe, [*overrides, *more]), quiet_console)["steps"] == 6


def test_methods_that_run_the_predecessor_beside_the_student_distil_on_text(text_recipe, quiet_console, tmp_path):
    more = ["evaluation.truncated=false", "evaluation.latency=false", "plan.init=lower"]
    record = compress(load_config(text_recipe, [*more, "method.name=distilbert", "method.top=4"]), quiet_console)
    assert record["stages"]["distilbert"]["steps"] == 6
    assert record["successor"]["metrics"]["perplexity"] < 25  # tokens of the vocabulary
    given = [f"predecessor.path={tmp_path / 'run' / 'predecessor'}", f"run.folder={tmp_path / 'relations'}"]
    record = compress(load_config(text_recipe, [*more, *given, "method.name=minilm"]), quiet_console)
    assert [record["stages"][name]["steps"] for name in ("intermediate", "prediction")] == [3, 3]
    given[1] = f"run.folder={tmp_path / 'blocks'}"
    record = compress(
        load_config(text_recipe, [*more, *given, "method.name=mobilebert", "method.alpha=0"]), quiet_console
    )
    steps = {name: stage["steps"] for name, stage in record["stages"].items()}
    assert steps == {**{f"transfer-{block}": 1 for block in (1, 2, 3, 4)}, "prediction": 2}


def test_only_as_much_text_is_cut_into_sequences_as_the_steps_can_use(finished):
    assert finished["task"]["blocks"]["train"]["blocks"] <= 30 * 8
    assert finished["task"]["train"] == finished["task"]["blocks"]["train"]["blocks"]


@pytest.mark.parametrize("overrides", [["method.name=kd"], ["method.name=pkd"], ["method.alpha=0.5"]])
def test_distilling_logits_of_every_token_is_refused(overrides, text_recipe, quiet_console, tmp_path):
    with pytest.raises(ConfigError, match="vocabulary of them for every token; use distilbert"):
        compress(load_config(text_recipe, overrides), quiet_console)
    assert not (tmp_path / "run").exists()


def test_a_predecessor_that_knows_no_word_is_refused(text_recipe, quiet_console):
    overrides = ["predecessor.training.max_steps=1", "predecessor.training.learning_rate=1e-9", "task.head_share=1"]
    with pytest.raises(RunError, match="no better than any of its 25 tokens at random"):
        compress(load_config(text_recipe, [*overrides, "task.head_learning_rate=1e-9"]), quiet_console)


def test_lines_that_quotes_have_joined_are_said_once_and_stand_in_the_record(text_recipe, tmp_path, tiny):
    marks = ('"', "", 'said "')
    texts = [f"{marks[row % 3]}{text}" for row, (text, _) in enumerate(tiny.make_rows(300))]
    (tmp_path / "a.tsv").write_text("".join(f"{text}\t1\n" for text in ["text", *texts]), "utf-8")
    console = Console(file=io.StringIO(), width=80)
    given = [f"task.path={tmp_path / 'a.tsv'}", "task.column=text"]
    config = load_config(text_recipe, given)
    run = read_run(config, open_context(console, tmp_path / "run", 0))
    run.task.lay_out(run.folder, console)
    (note,) = run.task.describe()["notes"]
    assert note.startswith("a.tsv: 300 lines became 100 rows")
    assert note.endswith("set task.quoting = false")
    assert console.file.getvalue().count("lines became") == 1
    plain = read_run(load_config(text_recipe, [*given, "task.quoting=none"]), open_context(console, tmp_path / "no", 0))
    plain.task.lay_out(tmp_path / "no", console)
    assert plain.task.describe()["notes"] == []


def test_a_corpus_of_nothing_but_held_out_text_is_refused(text_recipe, quiet_console, tmp_path):
    (tmp_path / "corpus.txt").write_text("a film\n")
    with pytest.raises(DataError, match=r"gives no text for (dev|train).*task.dev_share"):
        compress(load_config(text_recipe, []), quiet_console)
    assert not (tmp_path / "run").exists()


def test_a_classifier_is_not_evaluated_as_a_language_model(text_recipe, quiet_console, tiny_classifier_folder):
    config = load_config(text_recipe, [f"predecessor.path={tiny_classifier_folder}"])
    with pytest.raises(ConfigError, match=r"has no trained head for this task \(text\)"):
        evaluate(config, quiet_console)
