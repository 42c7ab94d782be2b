"""`plankwise export`: of runs and of models, checked on dev, written whole or not at all; exports are scored like any model."""

import json

import pytest

import plankwise
from conftest import make_rows

TASK = ("task.name=table", "task.text=sentence", "task.label=label", "training.max_length=16")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory, tiny_expert_folder):
    """A finished run, whose successor knows the task."""
    folder = tmp_path_factory.mktemp("export") / "run"
    plankwise.compress(
        tiny_expert_folder,
        task=make_rows(48),
        plan={"successors": 2},
        training={"max_steps": 2, "batch_size": 8, "max_length": 16},
        evaluation={"latency": False, "estimate": False, "truncated": False},
        run={"folder": str(folder)},
        quiet=True,
    )
    return folder


@pytest.fixture(scope="module")
def exported(run_folder):
    """What `plankwise export RUN --precision int8 --check --json` printed."""
    import contextlib
    import io
    import sys

    from plankwise.cli import main

    out = io.StringIO()
    arguments = ["plankwise", "export", str(run_folder), "--precision", "int8", "--check", "--json"]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setattr(sys, "argv", arguments)
        with contextlib.suppress(SystemExit):
            main()
    return json.loads(out.getvalue())


def test_a_runs_successor_goes_to_a_folder_in_the_run_with_what_the_check_found(exported, run_folder):
    folder = run_folder / "export" / "onnx-int8"
    assert exported["folder"] == str(folder)
    assert (exported["format"], exported["precision"], exported["quantise"]) == ("onnx", "int8", "dynamic")
    assert exported["check"]["torch_score"] == plankwise.evaluate(run_folder / "successor")["score"]
    assert exported["check"]["lost"] <= 0.01
    assert exported["size_mb"] == pytest.approx((folder / "model.onnx").stat().st_size / 1e6)
    assert "equal answers" in (folder / "README.md").read_text("utf-8")
    assert [one.name for one in (run_folder / "export").iterdir()] == ["onnx-int8"]


def test_an_export_is_scored_and_predicts_like_any_model(exported, command, tmp_path):
    out = tmp_path / "metrics.json"
    result = command("evaluate", exported["folder"], "--out", out)
    assert result.code == 0, result.err
    assert json.loads(out.read_text("utf-8"))["score"] == exported["check"]["score"]
    table = tmp_path / "new.csv"
    table.write_text("sentence\na lovely film\nthe plot is dull\n", "utf-8")
    result = command("predict", exported["folder"], "--table", table, "--text", "sentence", "--out", tmp_path / "p.csv")
    assert result.code == 0, result.err
    assert [line.split(",")[1] for line in (tmp_path / "p.csv").read_text("utf-8").splitlines()[1:]]


def test_what_is_there_is_replaced_only_if_asked_and_other_files_never(exported, run_folder, command, tmp_path):
    result = command("export", run_folder, "--precision", "int8")
    assert result.code == 2
    assert "is there already; add --force to replace it" in result.err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine", "utf-8")
    result = command("export", run_folder, "--to", "torch", "--out", tmp_path / "mine", "--force")
    assert result.code == 2
    assert "exists and is not an export of plankwise" in result.err
    assert (tmp_path / "mine" / "notes.txt").read_text("utf-8") == "mine"
    assert command("export", run_folder, "--to", "torch", "--out", tmp_path / "out").code == 0
    assert command("export", run_folder, "--to", "torch", "--out", tmp_path / "out", "--force").code == 0


def test_an_export_that_loses_too_much_is_refused_with_exit_code_2_and_nothing_is_left(
    run_folder, command, tmp_path, monkeypatch
):
    from plankwise.export import _tables

    rows = _tables.quantise_rows
    monkeypatch.setattr(_tables, "quantise_rows", lambda table: (rows(table)[0] * 0, rows(table)[1]))
    result = command("export", run_folder, "--precision", "int8", "--check", "--out", tmp_path / "out")
    assert result.code == 2
    assert "more than --tolerance 0.01 allows; nothing was written: try" in result.err
    assert result.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_fp32_whose_logits_are_not_torchs_is_refused(run_folder, command, tmp_path, monkeypatch):
    monkeypatch.setattr("plankwise.run.export_check.LARGEST_DIFFERENCE", 0.0)
    result = command("export", run_folder, "--to", "torch", "--check", "--out", tmp_path / "out")
    assert result.code == 2
    assert "the exported model's logits differ from torch's by up to 0, though both are fp32" in result.err
    assert not list(tmp_path.iterdir())


def test_static_int8_is_calibrated_on_the_tasks_own_training_texts(
    tiny_expert_folder, table_file, command, tmp_path, monkeypatch
):
    from plankwise.run import exporting

    seen, draw = [], exporting.calibration_batches

    def watch(run):
        seen.extend(draw(run))
        return seen

    monkeypatch.setattr(exporting, "calibration_batches", watch)
    options = (
        "--precision",
        "int8",
        "--quantise",
        "static",
        "--check",
        "--tolerance",
        "0.1",
        "--out",
        tmp_path / "out",
    )
    result = command("export", tiny_expert_folder, f"task.train={table_file}", *TASK, *options)
    assert result.code == 0, result.err
    assert sum(len(batch["input_ids"]) for batch in seen) == 38  # of 48 rows a fifth is dev
    assert json.loads((tmp_path / "out" / "export.json").read_text("utf-8"))["quantise"] == "static"


def test_a_language_model_is_checked_by_the_logits_of_its_tokens_and_its_perplexity(tiny, command, tmp_path):
    from transformers import BertConfig, BertForMaskedLM

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    model = BertForMaskedLM(BertConfig(**sizes, vocab_size=len(tiny.words), max_position_embeddings=64))
    model.save_pretrained(tmp_path / "model")
    tiny.save_tokenizer(tmp_path / "model")
    (tmp_path / "text.txt").write_text("\n".join(text for text, _ in tiny.make_rows(96)), "utf-8")
    given = ("task.name=text", f"task.path={tmp_path / 'text.txt'}", "task.dev_share=0.3", "training.max_length=16")
    result = command("export", tmp_path / "model", *given, "--check", "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert found["folder"] == str(tmp_path / "model-onnx-fp32")
    assert found["check"]["largest_difference"] < 1e-4
    assert found["check"]["equal_answers"] > 0.99
    assert found["check"]["score"] == pytest.approx(found["check"]["torch_score"], rel=1e-4)
    result = command("evaluate", found["folder"], *given, "--json")
    assert json.loads(result.out)["score"] == pytest.approx(found["check"]["score"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--to", "onx"), "--to is 'onx'; there is no such format. Did you mean 'onnx'?"),
        (("--precision", "int4"), "precision is 'int4', which the format onnx does not offer; choose one of fp32"),
        (("--to", "torch", "--precision", "int8"), "which the format torch does not offer; choose one of fp32, fp16"),
        (("--quantise", "static"), "quantise is 'static', but the precision is fp32"),
        (("--tolerance", "2"), "--tolerance is 2.0; give a share of the score"),
        (("--model", "teacher"), "--model is 'teacher'; choose one of successor, predecessor, truncated"),
        (("--model", "truncated"), "has no truncated: the run was not finished, or did not keep it"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(arguments, said, run_folder, command, tmp_path):
    result = command("export", run_folder, *arguments, "--out", tmp_path / "out")
    assert result.code == 2
    assert said in result.err
    assert not list(tmp_path.iterdir())


def test_a_model_in_no_run_needs_its_task_only_where_that_is_used(tiny_expert_folder, exported, command, tmp_path):
    result = command("export", tiny_expert_folder, "--check", "--out", tmp_path / "out")
    assert result.code == 2
    assert "its task is not known; say it, or leave --check, --quantise static and --vocabulary task out" in result.err
    result = command("export", tiny_expert_folder, "--model", "successor")
    assert "is not the folder of a run; leave --model out" in result.err
    result = command("export", exported["folder"], "--to", "torch", "--out", tmp_path / "out")
    assert "is an export already; give the model that it was made from" in result.err
    with pytest.raises(plankwise.PlankwiseError, match="was exported to onnx, which torch does not load"):
        plankwise.load(exported["folder"])
    given = ("--to", "torch", "--out", tmp_path / "out", "training.max_length=16")
    assert command("export", tiny_expert_folder, *given).code == 0
    assert json.loads((tmp_path / "out" / "export.json").read_text("utf-8"))["max_length"] == 16


def test_the_predecessor_of_a_run_is_exported_under_its_own_name(run_folder, command):
    result = command("export", run_folder, "--model", "predecessor", "--to", "torch", "--precision", "fp16", "--quiet")
    assert result.code == 0, result.err
    assert result.out.strip() == str(run_folder / "export" / "predecessor-torch-fp16")


def test_an_export_with_a_trimmed_vocabulary_answers_as_before_on_the_texts_that_it_was_trimmed_to(
    command, run_folder, tmp_path
):
    result = command("export", run_folder, "--vocabulary", "task", "--check", "--out", tmp_path / "small", "--json")
    assert result.code == 0, result.err
    written = json.loads(result.out)
    assert written["check"]["equal_answers"] == 1.0
    assert written["check"]["score"] == written["check"]["torch_score"]
    assert "tokens kept" in result.err


def test_static_quantisation_and_a_trimmed_vocabulary_are_two_steps(command, run_folder):
    result = command("export", run_folder, "--vocabulary", "task", "--precision", "int8", "--quantise", "static")
    assert result.code == 2
    assert "trim first, with `plankwise trim`" in result.err
