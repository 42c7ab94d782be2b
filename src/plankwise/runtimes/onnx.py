"""ONNX Runtime on the CPU, for models that were exported to onnx."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from plankwise.errors import MissingExtraError
from plankwise.runtimes import Load, Predictor
from plankwise.runtimes._exported import ExportedPredictor, find_export

if TYPE_CHECKING:
    from plankwise.runtimes._exported import Graph

TOLERANCE = 1e-4
FORMAT = "onnx"


class OnnxPredictor(ExportedPredictor):
    """ONNX graphs; their threads sleep between two predictions."""

    def open_graph(self, file: Path) -> Graph:
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
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        return lambda arrays: session.run(None, arrays)


def open(path: str, load: Load) -> Predictor:
    return OnnxPredictor(*find_export(path, FORMAT))
