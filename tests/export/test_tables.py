"""Embeddings in int8: what they take on disk, how near they are, and that tied weights stay one table."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from plankwise.export import choose, export_traced
from plankwise.export._tables import quantise_rows
from plankwise.export._traced import trace


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
    traced = trace(wide_classifier(), models.tokenizer)
    size = {}
    for precision in ("fp32", "int8"):
        folder = export_traced(traced, tmp_path / precision, format, choose(format, precision, None))
        size[precision] = sum(file.stat().st_size for file in folder.glob("model.*"))
    assert size["int8"] < 0.32 * size["fp32"]


@pytest.fixture(scope="module")
def traced(models):
    return trace(models.text, models.tokenizer)


def tables_of(folder):
    return [tuple(one.dims) for one in onnx.load(folder / "model.onnx").graph.initializer]


@pytest.mark.parametrize("quantise", ["dynamic", "static"])
def test_a_tied_table_stays_one_table(quantise, traced, batches, tmp_path):
    how = replace(choose("onnx", "int8", quantise), calibration=batches)
    shapes = tables_of(export_traced(traced, tmp_path / "out", "onnx", how))
    assert shapes.count((1000, 32)) == 1
    assert (32, 1000) not in shapes
    # What was quantised is a copy: the same graph still gives the whole precision.
    shapes = tables_of(export_traced(traced, tmp_path / "whole", "onnx", choose("onnx", "fp32", None)))
    assert shapes.count((1000, 32)) + shapes.count((32, 1000)) == 1
