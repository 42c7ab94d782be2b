"""A model as torch traces it: programs with a batch and a length of any size, from which formats are written."""

import contextlib
import copy
import inspect
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import nn

from plankwise.errors import ConfigError, RunError
from plankwise.models.exits import has_exits

TEXTS = ("plank by plank, the ship is rebuilt while it sails", "a ship", "planks and nails")  # of several lengths


class _Outputs(nn.Module):
    """The model with a mapping of inputs for its one argument, and its tensors for a result."""

    def __init__(self, model: Any, outputs: tuple[str, ...], options: dict[str, Any]) -> None:
        super().__init__()
        self.model, self.outputs, self.options = model, outputs, options

    def forward(self, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        found = self.model(**batch, **self.options)
        return tuple(found[name] for name in self.outputs)


@dataclass(frozen=True)
class Piece:
    """What becomes one graph: a module that takes a mapping of inputs, and a batch to trace it by."""

    name: str  # of its file
    module: nn.Module
    example: dict[str, torch.Tensor]
    outputs: tuple[str, ...]
    free: dict[str, tuple[int, ...]]  # the axes of each input that may have any size
    graphs: dict[str, Any] = field(
        default_factory=dict
    )  # by format, what it made of the program, for the next precision

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.example)

    @cached_property
    def program(self) -> Any:
        """The traced program.

        Raises:
            RunError: torch cannot trace it.
        """
        free = {name: dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for name, axes in self.free.items()}
        try:
            with quietly(), torch.no_grad():
                return torch.export.export(self.module.eval(), (self.example,), dynamic_shapes=(free,))
        except Exception as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise RunError(
                f"{type(getattr(self.module, 'model', self.module)).__name__} cannot be traced for batches and texts of any size "
                f"({reason}); export it to torch, or use a model of another family"
            ) from error


@dataclass(frozen=True)
class Traced:
    """A model in eval mode on the CPU in float32, with a batch to trace it by."""

    model: Any
    tokenizer: Any
    example: dict[str, torch.Tensor]
    results: dict[str, torch.Tensor]  # for the example
    options: dict[str, Any]  # that its forward pass is called with

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.example)

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(self.results)

    @property
    def free(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(self.inputs, (0, 1))

    @cached_property
    def pieces(self) -> list[Piece]:
        """The whole model, or the pieces of a model with early exits, in their order."""
        if has_exits(self.model):
            from plankwise.export._chain import cut_up

            return cut_up(self)
        module = _Outputs(self.model, self.outputs, self.options)
        return [Piece("model", module, self.example, self.outputs, self.free)]


def trace(model: Any, tokenizer: Any) -> Traced:
    """Prepares a model for writing; the model itself is left as it is.

    Raises:
        ConfigError: the tokenizer has no form that works without transformers, the model takes nothing that it gives, or writes
            texts with a decoder.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError(
            f"{type(tokenizer).__name__} cannot be written as tokenizer.json, which an exported model needs to work without "
            "transformers; use a model that has a tokenizer.json"
        )
    if model.training or any((one.device.type, one.dtype) != ("cpu", torch.float32) for one in model.parameters()):
        model = copy.deepcopy(model).to("cpu", torch.float32).eval()
    parameters = inspect.signature(model.forward).parameters
    if "decoder_input_ids" in parameters and model.can_generate():
        raise ConfigError(
            f"{type(model).__name__} writes texts with a decoder, a token at a time, which one graph does not; use it in torch"
        )
    batch = tokenizer(list(TEXTS), padding=True, return_tensors="pt")
    example = {name: value for name, value in batch.items() if name in parameters}
    if "input_ids" not in example:
        raise ConfigError(f"{type(model).__name__} does not take texts (input_ids); export takes models of texts only")
    options = {name: value for name, value in {"use_cache": False, "return_dict": True}.items() if name in parameters}
    with torch.no_grad():
        found = model(**example, **options)
    results = {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}
    return Traced(model, tokenizer, example, results, options)


@contextmanager
def quietly() -> Iterator[None]:
    """Keeps the notes, bars and warnings of exporters and quantisers off the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
