"""OpenVINO on the CPU, for models that were exported to openvino."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from plankwise.errors import MissingExtraError
from plankwise.runtimes import Load, Predictor
from plankwise.runtimes._exported import ExportedPredictor, find_export

if TYPE_CHECKING:
    from plankwise.runtimes._exported import Graph

TOLERANCE = 1e-4
FORMAT = "openvino"


class OpenvinoPredictor(ExportedPredictor):
    """OpenVINO models; what is not int8 is computed in float32, also where the CPU would offer bfloat16."""

    def open_graph(self, file: Path) -> Graph:
        try:
            import openvino
        except ImportError:
            raise MissingExtraError("a model that was exported to openvino", "openvino", "openvino") from None
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": self.threads,
            "ENABLE_CPU_PINNING": False,  # torch runs on the same cores
        }
        model = openvino.Core().compile_model(file, "CPU", settings)
        return lambda arrays: list(model(arrays).to_tuple())


def open(path: str, load: Load) -> Predictor:
    return OpenvinoPredictor(*find_export(path, FORMAT))
