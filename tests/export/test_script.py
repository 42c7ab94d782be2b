"""predict.py of an export, in a process in which only what it says it needs can be imported."""

import subprocess
import sys

import pytest
import torch

from exports import run_alone
from plankwise.export import export_model


@pytest.mark.parametrize(("format", "runtime"), [("onnx", "onnxruntime"), ("openvino", "openvino")])
def test_it_needs_the_runtime_tokenizers_and_numpy_alone(format, runtime, models, tmp_path):
    folder = export_model(models.labels, models.tokenizer, tmp_path / "out", format=format, max_length=16)
    lines = run_alone(folder, runtime, "a fine film", "the plot was very dull and weak")
    assert [line.split("\t")[0] for line in lines] == ["positive", "negative"]
    texts = ["a fine film", "the plot was very dull and weak"]
    batch = models.tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        shares = models.labels(**batch).logits.softmax(-1).max(-1).values
    assert [float(line.split("\t")[1]) for line in lines] == pytest.approx(shares.tolist(), abs=6e-4)
    assert len((folder / "predict.py").read_text("utf-8").splitlines()) < 45


def test_a_masked_language_model_prints_the_likeliest_token_of_each_mask(models, tmp_path):
    folder = export_model(models.text, models.tokenizer, tmp_path / "out", max_length=16)
    (line,) = run_alone(folder, "onnxruntime", "the [MASK] was [MASK]")
    batch = models.tokenizer("the [MASK] was [MASK]", return_tensors="pt")
    with torch.no_grad():
        best = models.text(**batch).logits.argmax(-1)[batch["input_ids"] == models.tokenizer.mask_token_id]
    known = [models.tokenizer.convert_ids_to_tokens(int(one)) for one in best]
    assert line.split() == [str(token) for token in known]


def test_the_torch_formats_script_runs_too(models, tmp_path):
    folder = export_model(models.labels, models.tokenizer, tmp_path / "out", format="torch")
    done = subprocess.run(
        [sys.executable, folder / "predict.py", "a superb film"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("positive\t")
