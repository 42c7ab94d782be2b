"""ONNX, for ONNX Runtime; on CPUs int8 is the fast one, and fp16 half the size of fp32 at its speed or less."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plankwise.export import DYNAMIC, STATIC, How, check_packages
from plankwise.runtimes import Batch, chain_source

if TYPE_CHECKING:
    from onnx import ModelProto

    from plankwise.export._traced import Piece, Traced

PRECISIONS = ("fp32", "fp16", "int8")
QUANTISES = (DYNAMIC, STATIC)
RUNTIME = "onnx"
NEEDS = ("onnxruntime",)

QUANTISED = ["MatMul", "Gemm"]  # tables are quantised apart, row by row
CHAIN = """\
options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # else threads of one graph take the next one's time
files = [HERE / name for name in about["files"][: about["exits"]["blocks"]]]
models = [onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"]) for file in files]


{source}


def run(batch):
    graphs = [lambda arrays, model=model: model.run(None, arrays) for model in models]
    return run_chain(graphs, batch, about["exits"])"""
MOST_BYTES = 2**31 - 1  # that one file of this format can have


def check_installed() -> None:
    check_packages("onnx", "onnx", "onnxscript", "onnxruntime")


def script(planned: bool) -> str:
    return """\
model = onnxruntime.InferenceSession(HERE / about["files"][0], providers=["CPUExecutionProvider"])


def run(batch):
    return model.run(about["outputs"], batch)"""


def chain_script() -> str:
    return CHAIN.format(source=chain_source())


def write(traced: Traced, folder: Path, how: How) -> tuple[str, ...]:
    from plankwise.export._chain import follow
    from plankwise.export._traced import quietly

    with quietly():
        files = [_write(piece, folder, one) for piece, one in follow(traced.pieces, how)]
    return (*(first for first, *_ in files), *(other for _, *more in files for other in more))


def _write(piece: Piece, folder: Path, how: How) -> tuple[str, ...]:
    """One graph, in one file or, if it is too large for that, in two."""
    import onnx

    model, file = _convert(piece), f"{piece.name}.onnx"
    if how.precision == "fp16":
        from onnxruntime.transformers.float16 import convert_float_to_float16

        model = convert_float_to_float16(model, keep_io_types=True)
    elif how.precision == "int8":
        model = _quantise(model, piece.inputs, folder / file, how)
    if model.ByteSize() <= MOST_BYTES:
        onnx.save_model(model, folder / file)
        return (file,)
    onnx.save_model(model, folder / file, save_as_external_data=True, location=f"{file}.data")
    return file, f"{file}.data"


def _convert(piece: Piece) -> ModelProto:
    """The graph, for the caller to change: converting takes seconds, and is done once for all precisions."""
    import copy

    if RUNTIME not in piece.graphs:
        piece.graphs[RUNTIME] = _export(piece)
    return copy.deepcopy(piece.graphs[RUNTIME])


def _export(piece: Piece) -> ModelProto:
    """The graph, without what the exporter notes beside it: paths of this machine, and shapes that quantisers do not agree with."""
    import torch

    from plankwise.export._attention import OPSET, TRANSLATIONS

    program = torch.onnx.export(
        piece.program,
        dynamo=True,
        opset_version=OPSET,
        custom_translation_table=TRANSLATIONS,
        input_names=list(piece.inputs),
        output_names=list(piece.outputs),
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
        for index, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_param"):
                dim.dim_param = "length" if index else "batch"
    return model


def _quantise(model: ModelProto, inputs: Sequence[str], file: Path, how: How) -> ModelProto:
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

    from plankwise.export._chain import answering
    from plankwise.export._tables import quantise_tables, untie

    tied = untie(model)
    options: dict[str, Any] = {
        "op_types_to_quantize": QUANTISED,
        # What heads of low blocks are given differs by less from text to text than 8 bits can tell. The quantiser makes a MatMul of
        # each Gemm, and looks for the name that it has then.
        "nodes_to_exclude": [name + end for name in answering(model.graph) for end in ("", "_MatMul")],
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
