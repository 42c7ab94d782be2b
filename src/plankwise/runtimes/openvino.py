"""OpenVINO on the CPU, for models that were exported to openvino."""

from __future__ import annotations

from typing import Any

from plankwise.errors import MissingExtraError
from plankwise.runtimes import Load, Predictor
from plankwise.runtimes._exported import ExportedPredictor, find_export

TOLERANCE = 1e-4
FORMAT = "openvino"


class OpenvinoPredictor(ExportedPredictor):
    """An OpenVINO model; what is not int8 is computed in float32, also where the CPU would offer bfloat16."""

    def start(self) -> None:
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
        self._model = openvino.Core().compile_model(self.folder / self.exported.files[0], "CPU", settings)

    def run(self, arrays: dict[str, Any]) -> list[Any]:
        found = self._model(arrays)
        return [found[name] for name in self.exported.outputs]


def open(path: str, load: Load) -> Predictor:
    return OpenvinoPredictor(*find_export(path, FORMAT))
