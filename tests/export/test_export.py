"""The contract of every format, found by its file, plug-ins included; and what `export_model` refuses."""

import json
import shutil

import pytest
import torch

from plankwise.errors import ConfigError, MissingExtraError, RunError
from plankwise.export import choose, export_model
from plankwise.export._cpu import has_vnni
from plankwise.kinds import list_kinds, load_kind
from plankwise.models.exported import read_exported
from plankwise.runtimes import open_predictor

FORMATS = list_kinds("export")
WAYS = [
    (name, precision, quantise)
    for name in FORMATS
    for kind in [load_kind("export", name, key="format")]
    for precision in kind.PRECISIONS
    for quantise in (kind.QUANTISES if precision == "int8" else (None,))
]
# Of the largest logit. Without VNNI OpenVINO rounds otherwise, and weights have 7 bits.
TOLERANCE = {"fp32": 1e-5, "fp16": 5e-3, "int8": 0.15 if has_vnni() else 0.4}  # anything else is coarser than fp16
ALWAYS = {"README.md", "config.json", "export.json", "predict.py", "tokenizer.json", "tokenizer_config.json"}


def logits_of(model, batch):
    with torch.no_grad():
        return model(**batch).logits


@pytest.mark.parametrize(("name", "precision", "quantise"), WAYS)
@pytest.mark.parametrize("task", ["labels", "text"])
def test_exported_and_torch_outputs_agree_for_batches_of_any_shape(
    name, precision, quantise, task, models, batches, tmp_path
):
    model = getattr(models, task)
    options = {"format": name, "precision": precision, "quantise": quantise, "calibration": batches}
    folder = export_model(model, models.tokenizer, tmp_path / "out", **options)
    exported = read_exported(str(folder))
    assert {file.name for file in folder.iterdir()} == {*ALWAYS, *exported.files}
    assert (exported.format, exported.precision, exported.quantise) == (name, precision, quantise)
    assert exported.labels == (("negative", "positive") if task == "labels" else ())
    predictor = open_predictor(exported.runtime, str(folder), type(model).from_pretrained)
    for batch in batches:
        read = batch["attention_mask"].bool() if task == "text" else ...
        found, expected = predictor(batch)["logits"].float(), logits_of(model, batch)
        assert found.shape == expected.shape
        assert (found - expected)[read].abs().max() <= TOLERANCE.get(precision, 0.05) * expected.abs().max()


def test_the_model_is_left_as_it_was_also_in_training_mode(models, tmp_path):
    before = {name: value.clone() for name, value in models.labels.state_dict().items()}
    models.labels.train()
    try:
        export_model(models.labels, models.tokenizer, tmp_path / "out", format="torch", precision="fp16")
        assert models.labels.training
    finally:
        models.labels.eval()
    assert all(torch.equal(value, before[name]) for name, value in models.labels.state_dict().items())


def test_what_a_check_gives_is_in_the_card_and_what_it_raises_leaves_no_folder(models, tmp_path):
    found = {"texts": 7, "largest_difference": 0.001, "equal_answers": 0.75, "score": 0.5, "torch_score": 0.6}
    seen = []

    def check(folder):
        seen.append(read_exported(str(folder)).check)
        return found

    folder = export_model(models.labels, models.tokenizer, tmp_path / "out", format="torch", check=check)
    card = (folder / "README.md").read_text("utf-8")
    assert seen == [None]
    assert "On 7 held-out texts" in card
    assert "equal answers: 75.00%" in card
    assert json.loads((folder / "export.json").read_text("utf-8"))["check"] == found
    shutil.rmtree(folder)

    def refuse(folder):
        raise RunError("no")

    with pytest.raises(RunError, match="no"):
        export_model(models.labels, models.tokenizer, tmp_path / "out", format="torch", check=refuse)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_an_export_that_fails_or_is_stopped_leaves_nothing(stop, models, tmp_path, monkeypatch):
    def write(traced, folder, how):
        (folder / "model.onnx").write_bytes(b"half")
        raise stop

    monkeypatch.setattr("plankwise.export.onnx.write", write)
    with pytest.raises(stop):
        export_model(models.labels, models.tokenizer, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_no_file_of_an_onnx_export_names_a_path_of_this_machine(models, tmp_path):
    import plankwise

    folder = export_model(models.labels, models.tokenizer, tmp_path / "out")
    home = plankwise.__file__.removesuffix("/__init__.py").encode()
    for file in folder.iterdir():
        assert b"site-packages" not in file.read_bytes(), file.name
        assert home not in file.read_bytes(), file.name


def test_what_a_format_does_not_offer_is_refused_with_what_it_offers():
    with pytest.raises(ConfigError, match=r"precision is 'int8', which the format torch does not offer; .* fp32, fp16"):
        choose("torch", "int8", None)
    with pytest.raises(ConfigError, match="quantise is 'static', but the precision is fp32; leave it out"):
        choose("onnx", "fp32", "static")
    with pytest.raises(ConfigError, match="quantise is 'statick'; the format onnx offers dynamic and static"):
        choose("onnx", "int8", "statick")
    with pytest.raises(ConfigError, match=r"format is 'onx'; .* Did you mean 'onnx'"):
        choose("onx", "fp32", None)


def test_static_without_texts_is_refused(models, tmp_path):
    with pytest.raises(ConfigError, match="needs calibration"):
        export_model(models.labels, models.tokenizer, tmp_path / "out", precision="int8", quantise="static")


def test_a_missing_package_is_named_with_its_extra(models, tmp_path, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxscript" else find(name))
    with pytest.raises(MissingExtraError, match=r"export to onnx needs the package onnxscript; .*plankwise\[onnx\]"):
        export_model(models.labels, models.tokenizer, tmp_path / "out")


@pytest.mark.parametrize(
    ("flags", "safe"),
    [("fpu avx2", True), ("fpu avx2 avx512_vnni", False), ("fpu avx_vnni", False), (None, True)],
)
def test_weights_have_seven_bits_where_the_cpu_has_no_vnni_or_does_not_say(flags, safe, tmp_path, monkeypatch):
    file = tmp_path / "cpuinfo"
    if flags is not None:
        file.write_text(f"flags\t\t: {flags}\n", "utf-8")
    monkeypatch.setattr("plankwise.export._cpu.CPU_INFO", file)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert choose("onnx", "int8", None).safe_range is safe
    assert choose("onnx", "int8", None, safe_range=not safe).safe_range is not safe
    assert choose("onnx", "fp32", None).safe_range is False
