"""A model with early exits as a chain of ONNX graphs, and what runs the chain with ONNX Runtime alone.

One graph cannot stop for one text and go on for another. So there is one for each block: the first holds the embeddings, the first
block and its head; each other a block and its head. Between two graphs texts leave, and only the others' rows are handed on:

    block-1.onnx    input_ids, attention_mask, …  →  next_state, logits, given_0, …
    block-2.onnx    state, given_0, …             →  next_state, logits
    exits.json      the order of the graphs, their inputs, patience and tolerance

`given_i` are the tensors beside the state that every block is given: the mask, mostly, as the family makes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plankwise.errors import MissingExtraError, PlanError, RunError
from plankwise.files import whole_folder, write_text
from plankwise.models.patience import Patience

if TYPE_CHECKING:
    import torch
    from torch import nn

INDEX = "exits.json"
STATE, NEXT, LOGITS, GIVEN = "state", "next_state", "logits", "given_{}"
TEXTS, TOKENS = 7, 11  # of the batch that graphs are made with: sizes that nothing else in a model has


def write_graphs(model: Any, names: Sequence[str], folder: Path) -> Path:
    """Writes the chain of a model with early exits into a new folder, whole or not at all; gives its path.

    `names`: of the inputs, as the tokenizer's `model_input_names` has them. The graphs take any number of texts and tokens.

    Raises:
        PlanError: the model has no exits, or its blocks are not all given the same.
        MissingExtraError: onnx is not installed.
        RunError: the disk is full, or the place is not for writing.
    """
    import torch

    from plankwise.models.exits import has_exits, run_first_block, settings_of

    if not has_exits(model):
        raise PlanError(
            f"a {type(model).__name__} has no early exits, so that it is no chain of graphs; export it as one graph"
        )
    model.eval()
    inputs = _sample(model, names)
    with torch.no_grad():
        state, calls = run_first_block(model, dict(inputs))
    shape = _shape_of(calls)
    given = _tensors(*calls[0])
    beside = [GIVEN.format(index) for index in range(len(given))]
    index = {
        **settings_of(model),
        "inputs": list(inputs),
        "graphs": [f"block-{block}.onnx" for block in range(1, model.num_blocks + 1)],
        # Which of the tensors have a row for each text; the others are for all of them.
        "given": {name: len(one) == len(state) for name, one in zip(beside, given, strict=True)},
    }
    with torch.no_grad(), whole_folder(folder) as part:
        _write(_First(model, list(inputs)), inputs, [NEXT, LOGITS, *beside], part / "block-1.onnx")
        rest = {STATE: state, **dict(zip(beside, given, strict=True))}
        for block in range(2, model.num_blocks + 1):
            _write(_Later(model, block, shape), rest, [NEXT, LOGITS], part / f"block-{block}.onnx")
        write_text(part / INDEX, json.dumps(index, indent=1))
    return folder


def _sample(model: Any, names: Sequence[str]) -> dict[str, torch.Tensor]:
    """A padded batch of made-up tokens."""
    import torch

    ids = torch.arange(TEXTS * TOKENS).view(TEXTS, TOKENS) % model.config.vocab_size
    mask = torch.ones_like(ids)
    mask[0, TOKENS // 2 :] = 0
    ids = ids.masked_fill(mask == 0, model.config.pad_token_id or 0)
    known = {"input_ids": ids, "attention_mask": mask}
    return {name: known.get(name, torch.zeros_like(ids)) for name in names}


def _shape_of(calls: list[tuple[tuple, dict[str, Any]]]) -> tuple[tuple, dict[str, Any]]:
    """What a block is called with beside the state, a number in the place of each tensor.

    Raises:
        PlanError: one block is given other tensors than the first.
    """
    first = _tensors(*calls[0])
    if any([id(one) for one in _tensors(*call)] != [id(one) for one in first] for call in calls):
        raise PlanError(
            "the blocks of this family are each given tensors of their own, which a chain of graphs does not hand on; use the "
            "model in torch"
        )
    numbers = iter(range(len(first)))
    args, kwargs = calls[0]
    return (
        tuple(_Place(next(numbers)) if _is_tensor(value) else value for value in args[1:]),
        {name: _Place(next(numbers)) if _is_tensor(value) else value for name, value in kwargs.items()},
    )


class _Place(int):
    """Stands for the tensor of that number."""


def _tensors(args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that a block is given beside the state."""
    return [value for value in (*args[1:], *kwargs.values()) if _is_tensor(value)]


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _First(model: Any, names: list[str]) -> nn.Module:  # noqa: N802, a class that needs torch
    """Embeddings, the first block, and its head."""
    from torch import nn

    from plankwise.models.exits import answer_after, run_first_block

    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
            state, calls = run_first_block(self.model, dict(zip(names, values, strict=True)))
            return state, answer_after(self.model, 1, state), *_tensors(*calls[0])

    return First()


def _Later(model: Any, block: int, shape: tuple[tuple, dict[str, Any]]) -> nn.Module:  # noqa: N802
    """Another block, and its head."""
    from torch import nn

    from plankwise.core.slot import state_of
    from plankwise.models.exits import answer_after

    class Later(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.block = model.get_submodule(f"{model.config.exits['chain']}.{block - 1}")

        def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            state, *given = values

            def fill(value: Any) -> Any:
                return given[value] if isinstance(value, _Place) else value

            args, kwargs = shape
            named = {name: fill(value) for name, value in kwargs.items()}
            state = state_of(self.block(state, *(fill(value) for value in args), **named))
            return state, answer_after(self.model, block, state)

    return Later()


def _write(module: nn.Module, inputs: Mapping[str, torch.Tensor], outputs: list[str], file: Path) -> None:
    """One graph, with any number of texts and tokens."""
    import torch
    from torch.export import Dim

    places = tuple(
        {axis: Dim.DYNAMIC for axis, size in enumerate(one.shape) if size in (TEXTS, TOKENS)} for one in inputs.values()
    )
    try:
        torch.onnx.export(
            module.eval(),
            tuple(inputs.values()),
            str(file),
            input_names=list(inputs),
            output_names=outputs,
            dynamic_shapes=(places,),
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    except ImportError as error:
        raise MissingExtraError("a chain of graphs", "onnx and onnxscript", "onnx") from error


class GraphChain:
    """The chain at work, in ONNX Runtime: texts leave between the graphs."""

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingExtraError("a chain of graphs", "onnxruntime", "onnx") from error
        try:
            self.index = json.loads((folder / INDEX).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(
                f"{folder} holds no chain of graphs ({error}); give a folder that write_graphs wrote"
            ) from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        # Threads that spin after each call take the time of whatever runs next.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.patience: int = self.index["patience"]
        self.graphs = [
            onnxruntime.InferenceSession(str(folder / name), options, providers=["CPUExecutionProvider"])
            for name in self.index["graphs"]
        ]

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Logits (B, C), and after which block each text left, (B,), from 1."""
        feed = {name: np.asarray(inputs[name]) for name in self.index["inputs"]}
        counting, left = Patience(self.patience, self.index["tolerance"]), np.arange(len(next(iter(feed.values()))))
        exits = np.full(len(left), len(self.graphs))
        answers = np.empty(0)
        for block, graph in enumerate(self.graphs, 1):
            wanted = {one.name for one in graph.get_inputs()}
            names = [one.name for one in graph.get_outputs()]
            found = dict(zip(names, graph.run(None, {name: feed[name] for name in wanted}), strict=True))
            feed, logits = {**feed, **found, STATE: found[NEXT]}, found[LOGITS]
            answers = answers if answers.size else np.empty((len(left), logits.shape[1]), logits.dtype)
            answers[left] = logits
            if block == len(self.graphs):
                break
            leaving = np.array(counting.leaving(logits), dtype=bool)
            exits[left[leaving]] = block
            if leaving.all():
                break
            if leaving.any():
                kept = np.flatnonzero(~leaving)
                counting.keep(kept.tolist())
                left = left[kept]
                own = [STATE, *(name for name, by_text in self.index["given"].items() if by_text)]
                feed |= {name: feed[name][kept] for name in own}
        return answers, exits
