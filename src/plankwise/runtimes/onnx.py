"""ONNX Runtime on the CPU, for models that were exported to onnx."""

from __future__ import annotations

from typing import Any

from plankwise.errors import MissingExtraError
from plankwise.runtimes import Load, Predictor
from plankwise.runtimes._exported import ExportedPredictor, find_export

TOLERANCE = 1e-4
FORMAT = "onnx"


class OnnxPredictor(ExportedPredictor):
    """An ONNX graph; its threads sleep between two predictions."""

    def start(self) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise MissingExtraError("a model that was exported to onnx", "onnxruntime", "onnx") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors
        # Threads that wait for work in a loop take the CPU from whatever runs next: from torch, when both are timed in turn.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        file = self.folder / self.exported.files[0]
        self._session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def run(self, arrays: dict[str, Any]) -> list[Any]:
        return self._session.run(list(self.exported.outputs), arrays)


def open(path: str, load: Load) -> Predictor:
    return OnnxPredictor(*find_export(path, FORMAT))
