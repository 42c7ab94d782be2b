"""What of two runs must be equal: their records but for times and places, and every weight that they saved."""

import json
import re
from pathlib import Path

import torch
from safetensors.torch import load_file

TIMES = re.compile(r"seconds|latency|speedup|_ms$|^machine$|^estimate$|^path$|^folder$|^effort$|calibration")


def comparable(value):
    """A record without what a clock or a folder's name decides."""
    if isinstance(value, dict):
        return {key: comparable(inner) for key, inner in value.items() if not TIMES.search(key)}
    return [comparable(inner) for inner in value] if isinstance(value, list) else value


def outcome(folder: Path):
    """What a run has come to: its record, and every weight that it has saved."""
    weights = {
        (path.parent.name, name): value.reshape(-1).view(torch.uint8).numpy().tobytes()
        for path in sorted(folder.glob("*/model.safetensors"))
        for name, value in load_file(path).items()
    }
    return comparable(json.loads((folder / "record.json").read_text())), weights
