"""Embedding tables of an ONNX graph in int8, with a scale of its own for each row.

ONNX Runtime's quantiser gives a whole table one scale, so that one large value coarsens every token. Here a row is looked up
together with its scale. A table that is also the head's matrix (tied weights of a language model) stays one table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

LARGEST = 127


def untie(model: ModelProto) -> dict[str, str]:
    """Makes matrices of tables that are transposed while the graph runs, so that a quantiser sees them.

    Gives each such table's name with its matrix's.
    """
    from onnx import numpy_helper

    graph, found = model.graph, {}
    tables = {one.name: one for one in graph.initializer if len(one.dims) == 2}
    for node in [one for one in graph.node if one.op_type == "Transpose" and one.input[0] in tables]:
        values = np.ascontiguousarray(numpy_helper.to_array(tables[node.input[0]]).T)
        graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
        graph.node.remove(node)
        found[node.input[0]] = node.output[0]
    used = {name for node in graph.node for name in node.input}
    for name in found.keys() - used:
        graph.initializer.remove(tables[name])
    return {table: matrix for table, matrix in found.items() if table in used}


def quantise_tables(model: ModelProto, tied: dict[str, str]) -> None:
    """Makes int8 of every table that rows are looked up in; `tied` is what `untie` gave, the matrices being quantised since."""
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    values = {one.name: one for one in graph.initializer}
    made: dict[str, tuple[str, str]] = {}  # the int8 rows and the scales of a table, by their names
    nodes: list[NodeProto] = []
    for node in graph.node:
        table = values.get(node.input[0]) if node.op_type == "Gather" else None
        if table is None or len(table.dims) != 2 or table.data_type != TensorProto.FLOAT or _axis(node) != 0:
            nodes.append(node)
            continue
        if table.name not in made:
            made[table.name] = rows, scales = f"{table.name}_rows", f"{table.name}_row_scales"
            matrix = tied.get(table.name, "")
            if f"{matrix}_quantized" in values:
                integers = numpy_helper.to_array(values[f"{matrix}_quantized"]).T
                factors = numpy_helper.to_array(values[f"{matrix}_scale"]).reshape(-1, 1)
                graph.initializer.remove(values[f"{matrix}_quantized"])
                nodes.insert(0, helper.make_node("Transpose", [rows], [f"{matrix}_quantized"], perm=[1, 0]))
            else:
                integers, factors = quantise_rows(numpy_helper.to_array(table))
            graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(integers), rows))
            graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(factors), scales))
        nodes += _look_up(node, *made[table.name])
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    for name in made.keys() - used:
        graph.initializer.remove(values[name])


def quantise_rows(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A table (V, D) as int8 and a scale (V, 1) for each row."""
    largest = np.abs(table).max(axis=1, keepdims=True)
    scales = np.maximum(largest / LARGEST, np.finfo(np.float32).tiny)  # of a row of zeros, too
    return np.rint(table / scales).astype(np.int8), scales


def _look_up(node: NodeProto, rows: str, scales: str) -> list[Any]:
    from onnx import TensorProto, helper

    name, places = node.output[0], node.input[1]
    return [
        helper.make_node("Gather", [rows, places], [f"{name}_integers"], axis=0),
        helper.make_node("Gather", [scales, places], [f"{name}_scales"], axis=0),
        helper.make_node("Cast", [f"{name}_integers"], [f"{name}_floats"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"{name}_floats", f"{name}_scales"], [name]),
    ]


def _axis(node: NodeProto) -> int:
    return next((one.i for one in node.attribute if one.name == "axis"), 0)
