"""What attention as one operation of an ONNX graph is worth here: an encoder of 6 blocks, int8, as exports have it and in parts.

Both graphs are run by ONNX Runtime in turns; the ratio is the median of paired ratios.

    python benchmarks/attention.py [--rounds 30] [--width 384] [--section FILE]
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import onnxruntime
import torch
from _common import add_section_option, make_table, write_section
from rich.console import Console
from transformers import BertConfig, BertForSequenceClassification

from plankwise.export import How, _attention
from plankwise.export._traced import Piece, _Outputs
from plankwise.export.onnx import write

SHAPES = ((1, 25), (16, 25), (1, 128), (16, 128), (1, 512))  # texts, tokens a text


def make_graph(folder: Path, width: int) -> Path:
    """The graph of an encoder with random weights."""
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=width, num_hidden_layers=6, num_attention_heads=width // 32, intermediate_size=4 * width
    )
    ids = torch.randint(1000, 20000, (2, 8))
    example = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    module = _Outputs(BertForSequenceClassification(config).eval(), ("logits",), {})
    piece = Piece("model", module, example, ("logits",), dict.fromkeys(example, (0, 1)))
    folder.mkdir()
    (file,) = write(cast(Any, SimpleNamespace(pieces=[piece])), folder, How(precision="int8"))
    return folder / file


def open_graph(file: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def measure(whole: Any, parts: Any, texts: int, length: int, rounds: int) -> float:
    """How many times faster the graph with whole attention is."""
    ids = np.random.default_rng(0).integers(1000, 20000, (texts, length))
    batch = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    seconds: list[tuple[float, float]] = []
    for number in range(rounds + 2):
        taken = {}
        for name, session in (
            (("whole", whole), ("parts", parts)) if number % 2 else (("parts", parts), ("whole", whole))
        ):
            started = time.perf_counter()
            session.run(None, batch)
            taken[name] = time.perf_counter() - started
        seconds.append((taken["parts"], taken["whole"]))
    return statistics.median(one / other for one, other in seconds[2:])


def main(arguments: argparse.Namespace) -> None:
    console, rows = Console(), []
    with tempfile.TemporaryDirectory() as place:
        whole = open_graph(make_graph(Path(place) / "whole", arguments.width))
        with patch.object(_attention, "TRANSLATIONS", {}), patch.object(_attention, "OPSET", 20):
            parts = open_graph(make_graph(Path(place) / "parts", arguments.width))
        for texts, length in SHAPES:
            ratio = measure(whole, parts, texts, length, arguments.rounds)
            what = f"{texts} text{'s' if texts > 1 else ''} of {length} tokens"
            console.print(f"{what}: {ratio:.2f} times as fast", soft_wrap=True)
            rows.append([what, f"{ratio:.2f}×"])
    paragraph = (
        f"An encoder of 6 blocks, width {arguments.width}, int8, {torch.get_num_threads()} threads, in turns, medians of paired "
        "ratios."
    )
    write_section(
        arguments.section, "Attention as one operation", [paragraph, make_table(["", "over attention in parts"], rows)]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--width", type=int, default=384)
    add_section_option(parser)
    main(parser.parse_args())
