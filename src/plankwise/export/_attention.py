"""Attention as one operation of the graph, which reads states as they are: heads need not be moved apart and together again."""

from collections.abc import Callable
from typing import Any

import torch
from onnxscript import opset23

OPSET = 23  # the first with Attention

op: Any = opset23  # its types are of values, not of what a graph is made of


def attend(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """What torch's scaled_dot_product_attention becomes; queries, keys and values are (B, H, T, D) each."""
    heads = int(query.shape[1])
    more = {} if scale is None else {"scale": float(scale)}
    attended, *_ = op.Attention(
        _together(query),
        _together(key),
        _together(value),
        None if attn_mask is None else _for_each(attn_mask, query),
        is_causal=int(is_causal),
        q_num_heads=heads,
        kv_num_heads=int(key.shape[1]),
        **more,
    )
    apart = op.Reshape(attended, op.Constant(value_ints=[0, 0, heads, -1]))
    return op.Transpose(apart, perm=[0, 2, 1, 3])


def _together(states: Any) -> Any:
    """(B, H, T, D) to (B, T, H * D); behind the model's own transposition this is none."""
    return op.Reshape(op.Transpose(states, perm=[0, 2, 1, 3]), op.Constant(value_ints=[0, 0, -1]))


def _for_each(mask: Any, query: Any) -> Any:
    """The mask with a row for each query: ONNX Runtime has one stand for all in any other axis, but not in this one."""
    if mask.shape[-2] != 1:
        return mask
    one = op.Constant(value_ints=[1])
    return op.Expand(mask, op.Concat(one, one, op.Shape(query, start=2, end=3), one, axis=0))


TRANSLATIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.ops.aten.scaled_dot_product_attention.default: attend
}
