"""Embeddings in int8: what they take on disk, how near they are, and that tied weights stay one table."""

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from plankwise.export import export_model
from plankwise.export._tables import quantise_rows


@given(arrays(np.float32, (5, 8), elements=st.floats(-100, 100, width=32)))
def test_a_row_is_off_by_half_a_step_of_its_own_scale_at_most(table):
    integers, scales = quantise_rows(table)
    assert integers.dtype == np.int8
    assert (np.abs(integers * scales - table) <= scales * 0.501).all()


def test_a_row_of_zeros_stays_zeros():
    integers, scales = quantise_rows(np.zeros((2, 4), np.float32))
    assert not integers.any()
    assert np.isfinite(scales).all()


def wide_classifier():
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    return BertForSequenceClassification(BertConfig(**sizes, vocab_size=20_000, max_position_embeddings=64)).eval()


@pytest.mark.parametrize("format", ["onnx", "openvino"])
def test_int8_takes_a_quarter_of_fp32_on_disk_though_nearly_all_of_it_is_embeddings(format, models, tmp_path):
    model = wide_classifier()
    size = {}
    for precision in ("fp32", "int8"):
        folder = export_model(model, models.tokenizer, tmp_path / precision, format=format, precision=precision)
        size[precision] = sum(file.stat().st_size for file in folder.glob("model.*"))
    assert size["int8"] < 0.32 * size["fp32"]


@pytest.mark.parametrize("quantise", ["dynamic", "static"])
def test_a_tied_table_stays_one_table(quantise, models, batches, tmp_path):
    options = {"precision": "int8", "quantise": quantise, "calibration": batches}
    folder = export_model(models.text, models.tokenizer, tmp_path / "out", **options)
    shapes = [tuple(one.dims) for one in onnx.load(folder / "model.onnx").graph.initializer]
    assert shapes.count((1000, 32)) == 1
    assert (32, 1000) not in shapes
    whole = export_model(models.text, models.tokenizer, tmp_path / "whole")
    shapes = [tuple(one.dims) for one in onnx.load(whole / "model.onnx").graph.initializer]
    assert shapes.count((1000, 32)) + shapes.count((32, 1000)) == 1
