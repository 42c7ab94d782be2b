"""ONNX, for ONNX Runtime; on CPUs int8 is the fast one, and fp16 half the size of fp32 at its speed or less."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plankwise.export import DYNAMIC, STATIC, How, check_packages
from plankwise.runtimes import Batch

if TYPE_CHECKING:
    from onnx import ModelProto

    from plankwise.export._traced import Traced

PRECISIONS = ("fp32", "fp16", "int8")
QUANTISES = (DYNAMIC, STATIC)
RUNTIME = "onnx"
NEEDS = ("onnxruntime",)

FILE = "model.onnx"
OPSET = 20  # the first with LayerNormalization and Gelu as one operation each
QUANTISED = ["MatMul", "Gemm"]  # tables are quantised apart, row by row
MOST_BYTES = 2**31 - 1  # that one file of this format can have


def check_installed() -> None:
    check_packages("onnx", "onnx", "onnxscript", "onnxruntime")


def script(planned: bool) -> str:
    return """\
model = onnxruntime.InferenceSession(HERE / about["files"][0], providers=["CPUExecutionProvider"])


def run(batch):
    return model.run(about["outputs"], batch)"""


def write(traced: Traced, folder: Path, how: How) -> tuple[str, ...]:
    import onnx

    from plankwise.export._traced import quietly

    with quietly():
        model = _convert(traced)
        if how.precision == "fp16":
            from onnxruntime.transformers.float16 import convert_float_to_float16

            model = convert_float_to_float16(model, keep_io_types=True)
        elif how.precision == "int8":
            model = _quantise(model, traced.inputs, folder / FILE, how)
        if model.ByteSize() <= MOST_BYTES:
            onnx.save_model(model, folder / FILE)
            return (FILE,)
        onnx.save_model(model, folder / FILE, save_as_external_data=True, location=f"{FILE}.data")
        return FILE, f"{FILE}.data"


def _convert(traced: Traced) -> ModelProto:
    """The graph, without what the exporter notes beside it: paths of this machine, and shapes that quantisers do not agree with."""
    import torch

    program = torch.onnx.export(
        traced.program,
        dynamo=True,
        opset_version=OPSET,
        input_names=list(traced.inputs),
        output_names=list(traced.outputs),
        verbose=False,
    )
    assert program is not None
    model: Any = program.model_proto
    graph = model.graph
    del graph.value_info[:], model.metadata_props[:], graph.metadata_props[:]
    graph.doc_string = ""
    for one in (*graph.node, *graph.initializer, *graph.input, *graph.output):
        one.doc_string = ""
        del one.metadata_props[:]
    for value in (*graph.input, *graph.output):
        for index, name in enumerate(("batch", "length")):
            dims = value.type.tensor_type.shape.dim
            if index < len(dims) and dims[index].HasField("dim_param"):
                dims[index].dim_param = name
    return model


def _quantise(model: ModelProto, inputs: Sequence[str], file: Path, how: How) -> ModelProto:
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

    from plankwise.export._tables import quantise_tables, untie

    tied = untie(model)
    options: dict[str, Any] = {
        "op_types_to_quantize": QUANTISED,
        "per_channel": True,
        "reduce_range": how.safe_range,
        "weight_type": QuantType.QInt8,
        "extra_options": {"MatMulConstBOnly": True, "DefaultTensorType": onnx.TensorProto.FLOAT},
    }
    if how.quantise == STATIC:
        reader = _reader(inputs, how.calibration)
        quantize_static(model, file, reader, quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8, **options)
    else:
        quantize_dynamic(model, file, **options)
    quantised = onnx.load(file)
    quantise_tables(quantised, tied)
    return quantised


def _reader(inputs: Sequence[str], batches: Sequence[Batch]) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.batches: Iterator[dict[str, Any]] = iter(
                [{name: batch[name].numpy() for name in inputs} for batch in batches]
            )

        def get_next(self) -> dict[str, Any] | None:  # type: ignore[override]
            return next(self.batches, None)

    return Reader()
