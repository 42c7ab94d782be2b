"""Attention is one operation of an ONNX graph, and gives what torch's gives, whatever mask and heads it has."""

from types import SimpleNamespace

import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from plankwise.export import How
from plankwise.export._traced import Piece
from plankwise.export.onnx import write

BATCH, HEADS, LENGTH, WIDTH = 2, 4, 5, 8

CASES = {
    "no mask": lambda states: {},
    "a row for all queries": lambda states: {"attn_mask": states.new_tensor([1, 1, 0, 1, 1]).bool()[None, None, None]},
    "numbers for each head": lambda states: {"attn_mask": torch.arange(HEADS).view(1, -1, 1, 1) * states @ states.mT},
    "causal": lambda states: {"is_causal": True},
    "a query that may see nothing": lambda states: {
        "attn_mask": torch.ones(LENGTH, LENGTH).tril(-1).bool()[None, None]
    },
    "scaled": lambda states: {"scale": 0.3},
    "shared keys": lambda states: {"enable_gqa": True},
}


class Attention(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case

    def forward(self, batch):
        states = batch["states"]
        query = states.view(BATCH, LENGTH, HEADS, WIDTH).transpose(1, 2)
        more = CASES[self.case](query)
        shared = query[:, :: 2 if more.get("enable_gqa") else 1]
        found = nn.functional.scaled_dot_product_attention(query, shared, shared.flip(-1), **more)
        return (found.transpose(1, 2).reshape(BATCH, LENGTH, -1),)


@pytest.mark.parametrize("case", CASES)
def test_attention_is_one_operation_that_gives_what_torch_gives(case, tmp_path):
    torch.manual_seed(0)
    example = {"states": torch.randn(BATCH, LENGTH, HEADS * WIDTH)}
    module = Attention(case)
    piece = Piece("attention", module, example, ("found",), {"states": ()})
    (file,) = write(SimpleNamespace(pieces=[piece]), tmp_path, How())
    operations = [node.op_type for node in onnx.load(tmp_path / file).graph.node]
    assert operations.count("Attention") == 1
    assert "Softmax" not in operations
    (found,) = onnxruntime.InferenceSession(tmp_path / file).run(None, {"states": example["states"].numpy()})
    expected = module(example)[0]
    if "nothing" in case:  # what it gives is of no use, but must not be NaN, which would spread
        expected[:, 0], found[:, 0] = 0, 0 * found[:, 0]
    torch.testing.assert_close(torch.from_numpy(found), expected, atol=1e-5, rtol=1e-5)
