"""Early exits (PABEE, Zhou et al. 2020, arXiv:2006.04152): a text leaves the model once its answer has stopped changing.

After each block but the last stands a linear head of its own, on the vector that the model's own head is given (see `exit_heads`);
after the last block the model's own head answers. A text leaves when the answers of `patience` heads in a row were each the same as
the one before, so after block patience + 1 at the earliest; numbers are the same if they differ by less than `tolerance`. The code
of the paper runs one text at a time; here each leaves its batch by itself, and the next blocks run on those that are left.

The model is its family's own class with its own loop over the blocks, under the model type of `planned`; config.json has

    {"model_type": "plankwise", …, "exits": {"chain": "bert.encoder.layer", "patience": 3, "tolerance": 0.1}}

In training all blocks run, and the loss is the sum of j · L_j over the heads j = 1, 2, …, divided by the sum of j.
"""

import functools
import inspect
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers.modeling_outputs import SequenceClassifierOutput

from plankwise.core.slot import state_given, state_of
from plankwise.errors import ConfigError, PlanError
from plankwise.models.exit_heads import take_apart
from plankwise.models.patience import check_patience, count_same

HEADS = "exit_heads"  # the attribute, and so the beginning of the weights' names
NOT_FOR_ALL = ("output_hidden_states", "output_attentions")

# By context, not in the model: several threads may run one model.
_walking: ContextVar[Any] = ContextVar("walking", default=None)
_counter: ContextVar[Counter | None] = ContextVar("counter", default=None)
_hurried: ContextVar[bool] = ContextVar("hurried", default=False)


@dataclass
class ExitsOutput(SequenceClassifierOutput):
    """A classifier's outputs, and after which block each text left, from 1; None in training."""

    exits: torch.Tensor | None = None


def has_exits(model: Any) -> bool:
    return isinstance(model, WithExits)


class WithExits:
    """What a family's classifier is beside itself when it has early exits."""

    config: Any

    @property
    def patience(self) -> int:
        """How many answers in a row have to be the same as the one before; can be set."""
        return self.config.exits["patience"]

    @patience.setter
    def patience(self, value: int) -> None:
        self.config.exits = {**self.config.exits, "patience": check_patience(value)}

    @property
    def num_blocks(self) -> int:
        return len(getattr(self, HEADS)) + 1

    @property
    def leaves_early(self) -> bool:
        """Whether any text can leave before the last block."""
        return self.patience < self.num_blocks - 1

    def logits_by_block(self, **inputs: Any) -> torch.Tensor:
        """What the head after each block answers, (B, blocks, C); no text leaves."""
        inputs.pop("labels", None)
        walk = _Collecting(self)
        last = _walk(self, walk, (), inputs).logits
        return torch.stack([*walk.logits, last], 1)


def with_forward(original: Any) -> dict[str, Any]:
    """The members of a class whose texts leave early, made of a family's classifier."""

    @functools.wraps(original.forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) > 1:  # labels may be among them
            bound = inspect.signature(original.forward).bind(self, *args, **kwargs).arguments
            more = bound.pop("kwargs", {})
            args, kwargs = (), {name: value for name, value in {**bound, **more}.items() if name != "self"}
        labels, as_dict = kwargs.pop("labels", None), kwargs.pop("return_dict", None)
        if self.training:
            walk = _Collecting(self)
            output = _walk(self, walk, args, kwargs)
            loss: Any = None if labels is None else joint_loss([*walk.logits, output.logits], labels)
            found = ExitsOutput(loss=loss, logits=output.logits)
        else:
            found = _answer(self, args, kwargs)
            found = found if labels is None else _with_loss(found, labels)
        return found if as_dict is not False and self.config.return_dict else found.to_tuple()

    return {"forward": forward, "_whole_forward": original.forward}


def _with_loss(output: Any, labels: torch.Tensor) -> ExitsOutput:
    return ExitsOutput(**{**output, "loss": answer_loss(output.logits, labels)})


def _answer(model: Any, args: tuple, kwargs: dict[str, Any]) -> ExitsOutput:
    """What each text's last head answers, and after which block that was."""
    if not model.leaves_early:
        output = _walk(model, None, args, kwargs)
        exits = torch.full((len(output.logits),), model.num_blocks, device=output.logits.device)
        found = ExitsOutput(**output, exits=exits)
    else:
        for name in NOT_FOR_ALL:
            if kwargs.get(name) or getattr(model.config, name, False):
                raise ConfigError(
                    f"{name} is asked for, but texts leave this model early, so that later blocks have none for them; "
                    f"set model.patience = {model.num_blocks - 1} first, with which every text runs through all blocks"
                )
        walk = _Leaving(model)
        output = _walk(model, walk, args, kwargs)
        logits, exits = walk.gather(output.logits)
        found = ExitsOutput(logits=logits, exits=exits)  # type: ignore[arg-type]
    if (counter := _counter.get()) is not None:
        counter.update(found.exits.tolist())  # type: ignore[union-attr]
    return found


def _walk(model: Any, walk: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The family's own forward pass, in which `walk.step` stands for each block; None: the blocks run as they are."""
    token = _walking.set(walk)
    try:
        return type(model)._whole_forward(model, *args, **kwargs, return_dict=True)
    finally:
        _walking.reset(token)


@functools.cache
def _on_a_walk(original: Any) -> Any:
    """A block's class whose instances run as the walk says while there is one, and else as they always did."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        walk, run = _walking.get(), functools.partial(original.__call__, self)
        return run(*args, **kwargs) if walk is None else walk.step(run, args, kwargs)

    return type(original.__name__, (original,), {"__call__": call, "__module__": original.__module__, "walks": True})


def install_exits(model: Any, chain: str) -> None:
    """Gives a classifier a head for each block of the chain but the last, each a copy of its own, and lets its blocks be walked.

    Raises:
        PlanError: its head has no form that is known.
    """
    blocks: Any = model.get_submodule(chain)
    _, linear = take_apart(model)
    heads = [
        nn.Linear(linear.in_features, linear.out_features, device=linear.weight.device, dtype=linear.weight.dtype)
        for _ in range(len(blocks) - 1)
    ]
    for head in heads:
        head.load_state_dict(linear.state_dict())
    setattr(model, HEADS, nn.ModuleList(heads))
    # By its class, not by a module around it: weights keep the family's names, and a copy of a block runs on itself.
    for block in blocks:
        if not getattr(block, "walks", False):
            kind: Any = type(block)
            block.__class__ = _on_a_walk(kind)


class _Collecting:
    """A walk through all blocks that keeps what the head after each block but the last answers."""

    def __init__(self, model: Any) -> None:
        self.pool, self.heads = take_apart(model)[0], getattr(model, HEADS)
        self.logits: list[torch.Tensor] = []

    def step(self, run: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        output = run(*args, **kwargs)
        if len(self.logits) < len(self.heads):
            self.logits.append(self.heads[len(self.logits)](self.pool(state_of(output))))
        return output


class _Pooling:
    """A walk through all blocks that keeps the vector that the head after each block but the last is given."""

    def __init__(self, model: Any) -> None:
        self.pool, self.most = take_apart(model)[0], len(getattr(model, HEADS))
        self.vectors: list[torch.Tensor] = []

    def step(self, run: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        output = run(*args, **kwargs)
        if len(self.vectors) < self.most:
            self.vectors.append(self.pool(state_of(output)))
        return output


class _Looking:
    """A walk through the first block alone, which sees what each block is given; the others hand on what it returns."""

    def __init__(self) -> None:
        self.output: Any = None
        self.given: list[tuple[tuple, dict[str, Any]]] = []

    def step(self, run: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        self.given.append((args, kwargs))
        if len(self.given) == 1:
            self.output = run(*args, **kwargs)
        return self.output


class _Leaving:
    """A walk on which texts leave once their answer has stopped changing; blocks run on those that are left."""

    def __init__(self, model: Any) -> None:
        self.pool, self.heads = take_apart(model)[0], getattr(model, HEADS)
        self.patience, self.tolerance = settings_of(model).values()
        self.hurried = _hurried.get()
        self.before: torch.Tensor | None = (
            None  # the latest head's logits, and how often in a row answers were the same
        )
        self.counts: Any = 0
        self.blocks = 0  # that ran
        self.left: list[int] = []  # the places in the batch of the texts that are left
        self.batch = 0
        self.gone: list[tuple[list[int], torch.Tensor, int]] = []  # places, logits, block
        self.rest: tuple | None = None  # what the latest block returned beside its states
        self.taken: dict[
            int, tuple[torch.Tensor, torch.Tensor]
        ] = {}  # by id: what blocks are given, and the rows that are left

    def step(self, run: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        state = state_given(args, kwargs)
        if not self.blocks:
            self.batch, self.left = len(state), list(range(len(state)))
        if not self.left and self.blocks:
            return self._hand_on(state)
        if len(self.left) < self.batch:
            args = tuple(self._take(value, state) for value in args)
            kwargs = {name: self._take(value, state) for name, value in kwargs.items()}
        output = run(*args, **kwargs)
        self.rest = output[1:] if isinstance(output, tuple) else None
        self.blocks += 1
        if self.blocks > len(self.heads):
            return output
        state = state_of(output)
        logits = self.heads[self.blocks - 1](self.pool(state))
        if self.before is not None:
            self.counts = count_same(self.counts, logits, self.before, self.tolerance)
        self.before = logits
        if self.hurried:
            leaving = [self.blocks > self.patience] * len(self.left)
        else:
            leaving = [] if self.blocks == 1 else (self.counts >= self.patience).tolist()
        return self._leave(state, logits, leaving) if any(leaving) else output

    def _leave(self, state: torch.Tensor, logits: torch.Tensor, leaving: list[bool]) -> Any:
        gone = [row for row, leaves in enumerate(leaving) if leaves]
        kept = [row for row, leaves in enumerate(leaving) if not leaves]
        self.gone.append(([self.left[row] for row in gone], logits[gone], self.blocks))
        self.left = [self.left[row] for row in kept]
        self.before, self.counts = logits[kept], self.counts[kept]
        self.taken.clear()
        return self._hand_on(state[kept])

    def _hand_on(self, state: torch.Tensor) -> Any:
        return state if self.rest is None else (state, *self.rest)

    def _take(self, value: Any, state: torch.Tensor) -> Any:
        """What a block is given, for the texts that are left: a tensor with a row for each text of the batch is cut to theirs."""
        if isinstance(value, tuple | list):
            return type(value)(self._take(one, state) for one in value)
        if not isinstance(value, torch.Tensor) or value is state or value.dim() == 0 or len(value) != self.batch:
            return value
        if id(value) not in self.taken:
            self.taken[id(value)] = value, value[self.left]
        return self.taken[id(value)][1]

    def gather(self, last: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (B, C) and blocks (B,) in the batch's order, with those of the texts that ran to the end."""
        if not self.gone:
            return last, torch.full((len(last),), len(self.heads) + 1, device=last.device)
        parts = [*self.gone, (self.left, last, len(self.heads) + 1)]
        order = torch.tensor([place for places, _, _ in parts for place in places], device=last.device).argsort()
        blocks = torch.tensor([block for places, _, block in parts for _ in places], device=last.device)
        return torch.cat([logits for _, logits, _ in parts])[order], blocks[order]


def joint_loss(logits: Sequence[torch.Tensor], labels: torch.Tensor) -> torch.Tensor:
    """The heads' losses, in the order of the blocks: the sum of j · L_j divided by the sum of j."""
    total = sum(j * answer_loss(one, labels) for j, one in enumerate(logits, 1))
    return total / (len(logits) * (len(logits) + 1) / 2)  # type: ignore[return-value]


def answer_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy for classes, (B, C); the squared difference for a number, (B, 1)."""
    if logits.shape[-1] == 1:
        return functional.mse_loss(logits.flatten(), labels.flatten().to(logits.dtype))
    return functional.cross_entropy(logits, labels.flatten())


def run_first_block(model: Any, inputs: dict[str, Any]) -> tuple[torch.Tensor, list[tuple[tuple, dict[str, Any]]]]:
    """What a model's first block makes of a batch, and what each block is given, its positional and its named arguments."""
    walk = _Looking()
    _walk(model, walk, (), inputs)
    return state_of(walk.output), walk.given


def vectors_by_block(model: Any, inputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """What the head after each block but the last is given, (B, blocks - 1, D), and what the last answers; no text leaves."""
    walk = _Pooling(model)
    last = _walk(model, walk, (), dict(inputs)).logits
    return torch.stack(walk.vectors, 1), last


@contextmanager
def counted_exits() -> Iterator[Counter]:
    """While open, how many texts left after each block, from 1, of whatever model with exits runs here."""
    counter: Counter = Counter()
    token = _counter.set(counter)
    try:
        yield counter
    finally:
        _counter.reset(token)


def describe_exits(model: Any, counts: Counter) -> dict[str, Any]:
    """What a record says of a model with exits: its patience, and how many texts left after each of its blocks."""
    blocks = [counts[block] for block in range(1, model.num_blocks + 1)]
    mean = sum(block * count for block, count in enumerate(blocks, 1)) / max(1, sum(blocks))
    return {**settings_of(model), "blocks": blocks, "mean_block": mean}


@contextmanager
def hurried() -> Iterator[None]:
    """While open, every text leaves as early as the patience allows any: the least that such a model ever computes."""
    token = _hurried.set(True)
    try:
        yield
    finally:
        _hurried.reset(token)


def settings_of(model: Any) -> dict[str, Any]:
    """A model's patience and tolerance."""
    return {key: model.config.exits[key] for key in ("patience", "tolerance")}


def check_classifier(model: Any, original: Any) -> None:
    """Lets classifiers pass that answer with one class or one number.

    Raises:
        PlanError: it is not one.
    """
    if original is None or not isinstance(model, original):
        raise PlanError(
            f"a {type(model).__name__} is not a model that gives each text a class or a number, so that there is no answer to wait "
            "for; give a model for sequence classification"
        )
    kind, labels = model.config.problem_type, model.config.num_labels
    if kind == "multi_label_classification" or (kind == "regression" and labels > 1):
        raise PlanError(
            f"the model's problem_type is {kind!r} with {labels} labels, but early exits compare one class or one number; "
            "give a model that answers with one"
        )
