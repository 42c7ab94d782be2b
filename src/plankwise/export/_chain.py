"""A model with early exits cut into pieces that become a chain of graphs, one for each block; `runtimes/_chain.py` runs it.

One graph cannot stop for one text and go on for another. The first piece holds the embeddings, the first block and its head; each
other a block and its head.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from plankwise.core.slot import state_of
from plankwise.errors import ConfigError
from plankwise.export import How
from plankwise.export._traced import Piece, Traced
from plankwise.models.exit_heads import take_apart
from plankwise.models.exits import HEADS, run_first_block, settings_of
from plankwise.runtimes import Batch

if TYPE_CHECKING:
    from onnx import GraphProto

LOGITS, STATE, NEXT, GIVEN = "logits", "state", "next_state", "given_{}"

Call = tuple[tuple, dict[str, Any]]  # what a block is called with, positional and named


class _Answering(nn.Module):
    """A block of a model, from 1, and the head behind it, which is taken apart before anything is traced."""

    def __init__(self, model: Any, number: int) -> None:
        super().__init__()
        self.model, self.number = model, number
        self.pool, last = take_apart(model)
        self.head = [*getattr(model, HEADS), last][number - 1]


class _First(_Answering):
    """Embeddings, the first block, and its head."""

    def forward(self, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        state, calls = run_first_block(self.model, batch)
        return self.head(self.pool(state)), state, *_tensors(calls[0])


class _Later(_Answering):
    """Another block, and its head; the last block's state is not given."""

    def __init__(self, model: Any, number: int, call: Call) -> None:
        super().__init__(model, number)
        self.call = call
        self.block = model.get_submodule(f"{model.config.exits['chain']}.{number - 1}")

    def forward(self, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        given = iter([value for name, value in batch.items() if name != STATE])
        args, kwargs = self.call
        beside = [next(given) if _is_tensor(value) else value for value in args[1:]]
        named = {name: next(given) if _is_tensor(value) else value for name, value in kwargs.items()}
        state = state_of(self.block(batch[STATE], *beside, **named))
        logits = self.head(self.pool(state))
        return (logits,) if self.number == self.model.num_blocks else (logits, state)


def cut_up(traced: Traced) -> list[Piece]:
    """The pieces of a model with early exits, in their order.

    Raises:
        ConfigError: its blocks are not all given the same.
    """
    model = traced.model
    with torch.no_grad():
        state, calls = run_first_block(model, dict(traced.example))
        wide_state, wide_calls = run_first_block(model, _widen(traced.example))
    given = _tensors(calls[0])
    if any([id(one) for one in _tensors(call)] != [id(one) for one in given] for call in calls):
        raise ConfigError(
            f"the blocks of a {type(model).__name__} are each given tensors of their own, which a chain of graphs does not hand "
            "on; export it to torch"
        )
    names = [GIVEN.format(number) for number in range(len(given))]
    example = dict(zip([STATE, *names], [state, *given], strict=True))
    wide = [wide_state, *_tensors(wide_calls[0])]
    free = {name: _differing(one, other) for (name, one), other in zip(example.items(), wide, strict=True)}
    pieces = [Piece("block-1", _First(model, 1), traced.example, (LOGITS, NEXT, *names), traced.free)]
    for block in range(2, model.num_blocks + 1):
        outputs = (LOGITS,) if block == model.num_blocks else (LOGITS, NEXT)
        pieces.append(Piece(f"block-{block}", _Later(model, block, calls[0]), example, outputs, free))
    return pieces


def follow(pieces: Sequence[Piece], how: How) -> Iterator[tuple[Piece, How]]:
    """Each piece, and how it is written: calibrated with what the one before makes of its batches; no text leaves."""
    for piece in pieces:
        yield piece, how
        if piece is not pieces[-1]:
            with torch.no_grad():
                how = replace(how, calibration=[_hand_on(piece, batch) for batch in how.calibration])


def _hand_on(piece: Piece, batch: Batch) -> Batch:
    found = dict(zip(piece.outputs, piece.module({name: batch[name] for name in piece.inputs}), strict=True))
    given = {name: value for name, value in {**batch, **found}.items() if name.startswith(GIVEN.format(""))}
    return {STATE: found[NEXT], **given}


def answering(graph: "GraphProto") -> list[str]:
    """The nodes of a piece's ONNX graph that serve its answer alone: pooler and head, but not in the last piece."""
    if NEXT not in {one.name for one in graph.output}:
        return []
    return sorted(_needed(graph, LOGITS) - _needed(graph, NEXT))


def _needed(graph: "GraphProto", output: str) -> set[str]:
    """The names of all nodes that an output is computed by; nodes stand in the order in which they run."""
    wanted, found = {output}, set()
    for node in reversed(graph.node):
        if wanted & set(node.output):
            found.add(node.name)
            wanted |= set(node.input)
    return found


def describe_chain(traced: Traced) -> dict[str, Any]:
    """What export.json says of the chain: see `models/exported.py`."""
    pieces = traced.pieces
    free = pieces[-1].free if len(pieces) > 1 else {}
    given = {name: 0 in axes for name, axes in free.items() if name != STATE}
    return {**settings_of(traced.model), "blocks": len(pieces), "given": given}


def _widen(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The batch with one more text, and one more token to each: it shows which sizes of a tensor are those."""
    longer = {name: torch.cat([value, value[:, -1:]], 1) for name, value in batch.items()}
    return {name: torch.cat([value, value[:1]]) for name, value in longer.items()}


def _differing(one: torch.Tensor, other: torch.Tensor) -> tuple[int, ...]:
    return tuple(axis for axis, (size, wide) in enumerate(zip(one.shape, other.shape, strict=True)) if size != wide)


def _tensors(call: Call) -> list[torch.Tensor]:
    """The tensors that a block is given beside the state."""
    args, kwargs = call
    return [value for value in (*args[1:], *kwargs.values()) if _is_tensor(value)]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)
