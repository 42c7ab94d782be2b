"""What goes on inside: how like the two models' states are, a sentence's path through the layers, what each slot costs.

Similarity is linear CKA (Kornblith et al. 2019, arXiv:1905.00414) over tokens; paths are after van Aken et al. 2019
(arXiv:1909.04925), who look at one model at a time; here predecessor and successor stand side by side. Of a model with several
chains of blocks, an encoder and a decoder say, the first is looked at.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from plankwise.core.plan import Plan
from plankwise.core.slot import state_given
from plankwise.core.taps import tapped
from plankwise.data.encode import ROW
from plankwise.errors import PlanError
from plankwise.families import chains_of
from plankwise.models.plans import one_of, reassemble
from plankwise.models.vocabulary import reading

Score = Callable[[nn.Module], dict[str, float]]  # the key `score` is read
CHUNK = 1024  # tokens that are held in double precision at once


def look_inside(
    predecessor: nn.Module,
    successor: nn.Module,
    plan: Plan,
    batches: Iterable[Any],
    score: Score,
    tokenizer: Any,
    sentence: str,
    max_length: int,
    other: Any = None,
) -> dict:
    """`cka`, `paths` and `impact` as JSON, each left out where the models do not have it.

    Batches are the successor's, whose tokenizer is `tokenizer`; `other` is the predecessor's, if it has more tokens. Both models
    keep their weights and are left in eval mode.
    """
    with nullcontext() if other is None else reading(predecessor, other, tokenizer):
        cka = compare_states(predecessor, successor, batches)
        paths = trace_paths(predecessor, successor, tokenizer, sentence, max_length)
    found = {
        "cka": cka,
        "paths": paths,
        "impact": measure_impact(predecessor, successor, plan, score),
    }
    return {name: part for name, part in found.items() if part is not None}


def linear_cka(x: torch.Tensor, y: torch.Tensor) -> float:
    """How like two sets of states of the same N tokens are, (N, D) and (N, E): from 0 to 1, 0 where one does not vary."""
    similarity = Similarity()
    similarity.add([x], [y])
    return similarity.cka()[0][0]


class Similarity:
    """Linear CKA of each layer of one model with each of another, gathered batch by batch in double precision.

    What is kept does not grow with the number of tokens: sums and products, centred only at the end.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self._rows = _Side()
        self._columns = _Side()
        self._across: list[list[torch.Tensor]] = []

    def add(self, rows: list[torch.Tensor], columns: list[torch.Tensor]) -> None:
        """Takes the states of the same N tokens, one (N, D) a layer."""
        count = len(rows[0])
        if not count:
            return
        for start in range(0, count, CHUNK):
            self._add([part[start : start + CHUNK] for part in rows], [part[start : start + CHUNK] for part in columns])
        self.tokens += count

    def _add(self, rows: list[torch.Tensor], columns: list[torch.Tensor]) -> None:
        ours, theirs = self._rows.add(rows), self._columns.add(columns)
        self._across = self._across or [[x.new_zeros(x.shape[1], y.shape[1]) for y in theirs] for x in ours]
        for x, products in zip(ours, self._across, strict=True):
            for y, product in zip(theirs, products, strict=True):
                product.addmm_(x.T, y)

    def cka(self) -> list[list[float]]:
        """Rows: the first model's layers; columns: the second's."""
        ours, theirs = self._rows.norms(self.tokens), self._columns.norms(self.tokens)
        return [
            [
                _ratio(float((product - torch.outer(x, y) / self.tokens).norm()), norm, other)
                for y, other, product in zip(self._columns.sums, theirs, products, strict=True)
            ]
            for x, norm, products in zip(self._rows.sums, ours, self._across, strict=True)
        ]


class _Side:
    """The sums and products of one model's states, less the first token's: what does not vary is then exactly 0."""

    def __init__(self) -> None:
        self.origins: list[torch.Tensor] = []
        self.sums: list[torch.Tensor] = []
        self.products: list[torch.Tensor] = []

    def add(self, states: list[torch.Tensor]) -> list[torch.Tensor]:
        doubles = [state.cpu().double() for state in states]
        if not self.origins:
            self.origins = [state[0].clone() for state in doubles]
            self.sums = [torch.zeros_like(origin) for origin in self.origins]
            self.products = [origin.new_zeros(len(origin), len(origin)) for origin in self.origins]
        moved = [state - origin for state, origin in zip(doubles, self.origins, strict=True)]
        for state, total, product in zip(moved, self.sums, self.products, strict=True):
            total += state.sum(0)
            product.addmm_(state.T, state)
        return moved

    def norms(self, tokens: int) -> list[float]:
        return [
            float((product - torch.outer(total, total) / tokens).norm())
            for total, product in zip(self.sums, self.products, strict=True)
        ]


def _ratio(across: float, norm: float, other: float) -> float:
    return across**2 / (norm * other) if norm and other else 0.0


def compare_states(predecessor: nn.Module, successor: nn.Module, batches: Iterable[Any]) -> dict | None:
    """The heat map of linear CKA between the layers of the two models, over all tokens of the batches but padding.

    A batch holds the models' inputs, (B, T) each. None where a model has no chain or its states are not one for each token.
    """
    chains = _chains(predecessor)
    if not chains:
        return None
    path, several = chains[0], len(chains) > 1
    similarity = Similarity()
    for inputs in _uneven(batches):
        before, after = (_token_states(model, path, inputs) for model in (predecessor, successor))
        if before is None or after is None:
            return None
        similarity.add(before, after)
    if not similarity.tokens:
        return None
    return {
        "rows": _names(predecessor, path, "predecessor", several=several),
        "columns": _names(successor, path, "successor", several=several),
        "values": similarity.cka(),
        "tokens": similarity.tokens,
    }


def trace_paths(
    predecessor: nn.Module, successor: nn.Module, tokenizer: Any, sentence: str, max_length: int
) -> dict | None:
    """Where each token of the sentence stands after the embeddings and each block, in two dimensions a model.

    The dimensions are the first two principal components of all tokens in all layers of that model. None as `compare_states`, and
    for models that need a second text to run.
    """
    chains, config = _chains(predecessor), getattr(predecessor, "config", None)
    translates = getattr(config, "is_encoder_decoder", False) and predecessor.can_generate()  # type: ignore[operator]
    if not chains or translates:
        return None
    inputs = tokenizer([sentence], truncation=True, max_length=max_length, return_tensors="pt")
    before, after = (_token_states(model, chains[0], inputs) for model in (predecessor, successor))
    if before is None or after is None:
        return None
    return {
        "sentence": sentence,
        "tokens": tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist()),
        "predecessor": flatten(torch.stack(before)).tolist(),
        "successor": flatten(torch.stack(after)).tolist(),
    }


def flatten(states: torch.Tensor) -> torch.Tensor:
    """States (L, T, D) on their first two principal components, (L, T, 2); each direction's largest entry is positive."""
    points = states.cpu().double().flatten(0, 1)
    points = points - points.mean(0)
    directions = torch.linalg.svd(points, full_matrices=False).Vh[:2]
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    flat = points @ (directions * largest.sign()).T
    return nn.functional.pad(flat, (0, 2 - flat.shape[1])).unflatten(0, states.shape[:2])


def measure_impact(predecessor: nn.Module, successor: nn.Module, plan: Plan, score: Score) -> dict:
    """What the predecessor scores with the successor in one slot at a time, and in `all`.

    All else (embeddings, head, blocks outside the slots) stays the predecessor's, also where it was trained along.
    """
    hybrid = reassemble(copy.deepcopy(predecessor), successor, plan)
    count = len(plan.slots)

    def score_with(*mask: bool) -> float:
        with hybrid.masked(mask):
            return float(score(hybrid)["score"])

    baseline = score_with(*(False,) * count)
    slots = []
    for number, slot in enumerate(plan.slots, 1):
        found = score_with(*one_of(number, count))
        slots.append(
            {
                "slot": f"{slot.path}{list(slot.span)}" if slot.span else slot.path,
                "score": found,
                "drop": baseline - found,
            }
        )
    return {"baseline": baseline, "slots": slots, "all": score_with(*(True,) * count)}


def _chains(model: nn.Module) -> list[str]:
    try:
        return [chain.path for chain in chains_of(model)]
    except PlanError:
        return []


def _names(model: nn.Module, path: str, side: str, *, several: bool) -> list[str]:
    where = f"{path}: " if several else ""
    return [f"{side}: {where}embeddings", *(f"{where}block {number}" for number in range(1, _length(model, path) + 1))]


def _length(model: nn.Module, path: str) -> int:
    return len(list(model.get_submodule(path).children()))


def _uneven(batches: Iterable[Any]) -> Iterator[dict[str, torch.Tensor]]:
    """The batches, those with as many texts as tokens in two parts: else states (T, B, D) could not be told from (B, T, D)."""
    for batch in batches:
        inputs = {name: value for name, value in batch.items() if name != ROW}
        texts, tokens = inputs["input_ids"].shape if "input_ids" in inputs else (1, 1)
        if texts == tokens > 1:
            yield {name: value[:1] for name, value in inputs.items()}
            inputs = {name: value[1:] for name, value in inputs.items()}
        yield inputs


def _token_states(model: nn.Module, path: str, inputs: Any) -> list[torch.Tensor] | None:
    """The states (N, D) of all tokens but padding, before the chain's first block and after each; None if they are others."""
    model.eval()
    device = next(model.parameters()).device
    first: list[torch.Tensor] = []
    blocks = [f"{path}.{index}" for index in range(_length(model, path))]
    handle = model.get_submodule(blocks[0]).register_forward_pre_hook(
        lambda module, args, kwargs: first.append(state_given(args, kwargs)), with_kwargs=True
    )
    try:
        with torch.inference_mode(), tapped(model, blocks) as taps:
            model(**{name: value.to(device) for name, value in inputs.items()})
            states = [*first, *(taps[block] for block in blocks)]
    finally:
        handle.remove()
    mask = _mask(inputs)
    chosen = [_choose(state, mask) for state in states]
    return None if any(state is None for state in chosen) else chosen  # type: ignore[return-value]


def _mask(inputs: Any) -> torch.Tensor | None:
    """Which of the inputs (B, T) are tokens; None if they are not tokens but an image, say."""
    if "attention_mask" in inputs:
        return inputs["attention_mask"].bool()
    return torch.ones_like(inputs["input_ids"], dtype=torch.bool) if "input_ids" in inputs else None


def _choose(state: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor | None:
    if mask is None:
        return state.flatten(0, -2)
    if state.shape[:2] == mask.T.shape != mask.shape:  # XLNet's states are (T, B, D)
        state = state.transpose(0, 1)
    return state[mask.to(state.device)] if state.shape[:2] == mask.shape else None
