"""What training for int8 computes is what an int8 export computes: the same weights, and answers alike to float precision."""

import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn
from transformers.pytorch_utils import Conv1D

from plankwise.export import export_model
from plankwise.export._cpu import has_vnni
from plankwise.runtimes import open_predictor
from plankwise.training.fake_int8 import SAFE_RANGE, WHOLE_RANGE, fake_int8, round_channels

RANGES = pytest.mark.parametrize("safe_range", [False, True], ids=["whole", "safe"])


@pytest.fixture(scope="module")
def gpt2():
    """A classifier whose linear maps are transformers' own, with weights large enough for rounding to show."""
    from transformers import GPT2Config, GPT2ForSequenceClassification

    torch.manual_seed(0)
    sizes = {"n_embd": 32, "n_head": 2, "n_layer": 2, "vocab_size": 1000, "n_positions": 64, "initializer_range": 0.3}
    special = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    return GPT2ForSequenceClassification(GPT2Config(**sizes, **special)).eval()


def logits_of(model, batch):
    with torch.no_grad():
        return model(**batch).logits


@RANGES
@pytest.mark.parametrize("name", ["labels", "text", "gpt2"])
def test_a_model_in_training_answers_as_its_export_does(name, safe_range, models, gpt2, batches, tmp_path):
    if not safe_range and not has_vnni():
        pytest.skip("sums of 8-bit weights overflow on a CPU without VNNI, where exports have weights of 7 bits")
    model = gpt2 if name == "gpt2" else getattr(models, name)
    options = {"precision": "int8", "safe_range": safe_range}
    predictor = open_predictor("onnx", str(export_model(model, models.tokenizer, tmp_path / "out", **options)), None)
    for batch in batches:
        read = batch["attention_mask"].bool() if name == "text" else ...
        with fake_int8(model, safe_range=safe_range):
            trained = logits_of(model, batch)
        exported = predictor(batch)["logits"]
        off, plain = ((one - exported)[read].abs().max() for one in (trained, logits_of(model, batch)))
        assert off < plain / 100


@RANGES
@pytest.mark.parametrize("name", ["labels", "gpt2"])
def test_a_rounded_weight_is_the_exports_own(name, safe_range, models, gpt2, tmp_path):
    model = gpt2 if name == "gpt2" else models.labels
    folder = export_model(model, models.tokenizer, tmp_path / "out", precision="int8", safe_range=safe_range)
    values = {one.name: numpy_helper.to_array(one) for one in onnx.load(folder / "model.onnx").graph.initializer}
    matrices = [
        torch.from_numpy(integers * values[name.removesuffix("_quantized") + "_scale"]).float()
        for name, integers in values.items()
        if name.endswith("_quantized")
    ]
    layers = [module for module in model.modules() if isinstance(module, nn.Linear | Conv1D)]
    assert len(layers) > 8
    for layer in layers:
        weight = layer.weight.detach() if isinstance(layer, Conv1D) else layer.weight.detach().T
        rounded = round_channels(weight, SAFE_RANGE if safe_range else WHOLE_RANGE, axis=1)
        assert any(one.shape == rounded.shape and torch.allclose(one, rounded, rtol=1e-6) for one in matrices)
    for path, table in model.named_modules():
        if isinstance(table, nn.Embedding):
            rows, scales = (values[f"model.{path}.weight_{what}"] for what in ("rows", "row_scales"))
            rounded = round_channels(table.weight.detach(), WHOLE_RANGE)
            assert torch.allclose(torch.from_numpy(rows * scales), rounded, rtol=1e-6)
