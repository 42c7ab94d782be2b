"""A checkpoint of transformers in safetensors, in half the size with fp16."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING

from plankwise.errors import ConfigError
from plankwise.export import How

if TYPE_CHECKING:
    from plankwise.export._traced import Traced

PRECISIONS = ("fp32", "fp16")
QUANTISES = ()
RUNTIME = "torch"
NEEDS = ("torch", "transformers")
PLAIN = """\
kind = json.loads((HERE / "config.json").read_text("utf-8"))["architectures"][0]
model = getattr(transformers, kind).from_pretrained(HERE).eval()"""
PLANNED = """\
import plankwise  # which alone can describe this model

model = plankwise.load(HERE)"""


def check_installed() -> None:
    return


def script(planned: bool) -> str:
    return f"""\
{PLANNED if planned else PLAIN}


def run(batch):
    with torch.inference_mode():
        found = model(**{{name: torch.from_numpy(value) for name, value in batch.items()}})
    return [found[name].float().numpy() for name in about["outputs"]]"""


def write(traced: Traced, folder: Path, how: How) -> tuple[str, ...]:
    import torch

    from plankwise.models.quiet import quiet
    from plankwise.models.sentences import SentenceEncoder

    if isinstance(traced.model, SentenceEncoder):
        raise ConfigError(
            "format is 'torch', but the model is a sentence encoder, whose own folder sentence-transformers loads; use that, or "
            "export it to onnx or openvino"
        )
    model = copy.deepcopy(traced.model).to(torch.float16) if how.precision == "fp16" else traced.model
    with quiet():
        model.save_pretrained(folder)
    return tuple(sorted(file.name for file in folder.glob("*.safetensors")))
