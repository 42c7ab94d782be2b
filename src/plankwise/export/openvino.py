"""OpenVINO, for Intel's runtime; int8 by nncf, dynamic for weights alone, static for activations too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plankwise.export import DYNAMIC, STATIC, How, check_packages
from plankwise.runtimes import chain_source

if TYPE_CHECKING:
    from plankwise.export._traced import Piece, Traced

PRECISIONS = ("fp32", "fp16", "int8")
QUANTISES = (DYNAMIC, STATIC)
RUNTIME = "openvino"
NEEDS = ("openvino",)

CHAIN = """\
files = [HERE / name for name in about["files"][: about["exits"]["blocks"]]]
models = [openvino.Core().compile_model(file, "CPU", {{"INFERENCE_PRECISION_HINT": "f32"}}) for file in files]


{source}


def run(batch):
    graphs = [lambda arrays, model=model: list(model(arrays).to_tuple()) for model in models]
    return run_chain(graphs, batch, about["exits"])"""


def check_installed() -> None:
    check_packages("openvino", "openvino", "nncf")


def script(planned: bool) -> str:
    return """\
model = openvino.Core().compile_model(HERE / about["files"][0], "CPU", {"INFERENCE_PRECISION_HINT": "f32"})


def run(batch):
    found = model(batch)
    return [found[name] for name in about["outputs"]]"""


def chain_script() -> str:
    return CHAIN.format(source=chain_source())


def write(traced: Traced, folder: Path, how: How) -> tuple[str, ...]:
    from plankwise.export._chain import follow
    from plankwise.export._traced import quietly

    with quietly(), _unreported():
        for piece, one in follow(traced.pieces, how):
            _write(piece, folder, one)
    return (*(f"{piece.name}.xml" for piece in traced.pieces), *(f"{piece.name}.bin" for piece in traced.pieces))


def _write(piece: Piece, folder: Path, how: How) -> None:
    import openvino

    model = openvino.convert_model(piece.program)
    for ports, names in ((model.inputs, piece.inputs), (model.outputs, piece.outputs)):
        for port, name in zip(ports, names, strict=True):
            port.get_tensor().set_names({name})
    if how.precision == "int8":
        model = _quantise(model, piece.inputs, how)
    openvino.save_model(model, folder / f"{piece.name}.xml", compress_to_fp16=how.precision == "fp16")


def _quantise(model: Any, inputs: tuple[str, ...], how: How) -> Any:
    import nncf
    from nncf.quantization.advanced_parameters import AdvancedQuantizationParameters, OverflowFix

    if how.quantise == DYNAMIC:
        return nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_SYM)
    batches = [{name: batch[name].numpy() for name in inputs} for batch in how.calibration]
    return nncf.quantize(
        model,
        nncf.Dataset(batches),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(batches),
        advanced_parameters=AdvancedQuantizationParameters(
            overflow_fix=OverflowFix.ENABLE if how.safe_range else OverflowFix.DISABLE
        ),
    )


@contextmanager
def _unreported() -> Iterator[None]:
    """Inside, openvino and nncf do not report their use to their makers: they never do where CI is true."""
    before = os.environ.get("CI")
    os.environ["CI"] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ["CI"]
        else:
            os.environ["CI"] = before
