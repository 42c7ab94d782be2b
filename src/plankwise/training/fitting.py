"""The fitted start, after LIT (Koratana et al. 2019): each successor learns its own span before any coin is tossed.

The frozen predecessor runs on the training texts; each successor is given its span's input and learns its span's output, by
||scc(x) − prd(x)||² a text over the tokens that are not padding, divided by what ||prd(x) − x||² is for a held-out text on average,
so that it is a mean over texts however a step is divided. No label is read. A successor that hands its input
through has error 1, the span itself 0. All are fitted at once: their losses share nothing but one pass of the predecessor. Its
states are not kept from one epoch to the next: in a third of a short run most texts are seen once.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from datasets import concatenate_datasets
from torch import nn

from plankwise.core.hybrid import Rules
from plankwise.core.plan import Plan
from plankwise.core.schedule import Constant
from plankwise.core.slot import Pair, Replaceable
from plankwise.data.batch import sorted_batches, without_labels
from plankwise.data.encode import Encoded, encode
from plankwise.errors import DataError
from plankwise.solving.bench import mask_name
from plankwise.training.ship import launch
from plankwise.training.stage import Stage, StageResult

HELD_OUT = 512  # dev texts, at most, that the error is measured on


@dataclass(frozen=True)
class Fit:
    """What fitting took and gave: each successor's relative error on held-out texts, by slot."""

    stage: StageResult
    texts: int
    before: list[float]
    after: list[float]

    def to_json(self) -> dict:
        return {"texts": self.texts, "relative_error_before": self.before, "relative_error": self.after}


def fit(predecessor: nn.Module, plan: Plan, successors: list[nn.Module], stage: Stage, held_out: Encoded) -> Fit:
    """Fits the successors in place on the stage's texts, for as many steps as it says; the predecessor is only read.

    Raises:
        RunError: as a stage does.
    """
    ship: Any = launch(
        copy.deepcopy(predecessor),
        plan,
        successors,
        Constant(rate=1),
        seed=stage.context.seed,
        unfreeze="nothing",
        rules=Rules(skip=False),
    )
    ship.begin(num_steps=1)
    held_out = first_texts(held_out)
    masks = [mask_name(predecessor, slot.path) for slot in plan.slots]

    def loss(model: nn.Module, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        model(**inputs)
        missed = torch.stack([missed for missed, _ in _all_squares(slots, masks, inputs)])
        return (missed / len(rows) / moved.to(missed.device)).mean()

    def measure() -> tuple[torch.Tensor, torch.Tensor]:
        return stage.context.on_main(lambda: measure_squares(ship, slots, masks, held_out, stage.tokenizer))

    def errors() -> list[float]:
        return relative_error(*measure()).tolist()

    with ship.paired() as slots:
        missed, moved = measure()
        before = relative_error(missed, moved).tolist()
        moved = (moved / len(held_out.lengths)).clamp_min(torch.finfo(torch.float32).tiny)
        only_texts = stage.on_texts(lambda model: {"score": -float(np.mean(errors()))})
        result = only_texts.run(ship, loss=loss)
        return Fit(result, len(stage.train.lengths), before, errors())


def _all_squares(
    slots: list[Replaceable], masks: list[str], inputs: Any
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for slot, name in zip(slots, masks, strict=True):
        assert slot.pair is not None
        yield squares(slot.pair, inputs.get(name))


def squares(pair: Pair, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """||scc(x) − prd(x)||² and ||prd(x) − x||², each summed over the tokens that are not padding.

    Where x is not a state (token ids, at the embeddings), the second is ||prd(x)||².
    """
    missed, moved = squares_by_text(pair, mask)
    return missed.sum(), moved.sum()


def squares_by_text(pair: Pair, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The same for each text by itself, (B,) both."""
    missed = (pair.successor - pair.span).float().square().sum(-1)
    is_state = pair.before.is_floating_point() and pair.before.shape == pair.span.shape
    moved = ((pair.span - pair.before) if is_state else pair.span).float().square().sum(-1)
    if mask is not None and mask.shape == missed.shape:
        missed, moved = missed * mask, moved * mask
    return missed.reshape(len(missed), -1).sum(1), moved.reshape(len(moved), -1).sum(1)


def local_error(slots: list[Replaceable], masks: list[str], inputs: Any) -> torch.Tensor | None:
    """||scc(x) − prd(x)||² / ||prd(x) − x||², the mean over texts and slots where both ran; None if that is nowhere.

    What the span gives is a target: it has no gradient. `masks`: for each slot, the input that says which tokens are padding.
    """
    errors = []
    for slot, name in zip(slots, masks, strict=True):
        if slot.pair is not None:
            fixed = replace(slot.pair, before=slot.pair.before.detach(), span=slot.pair.span.detach())
            errors.append(relative_error(*squares_by_text(fixed, inputs.get(name))).mean())
    return torch.stack(errors).mean() if errors else None


def relative_error(missed: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
    return missed / moved.clamp_min(torch.finfo(torch.float32).tiny)


def measure_squares(
    ship: Any, slots: list[Replaceable], masks: list[str], texts: Encoded, tokenizer: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """For each slot both squares summed over all texts, in eval mode."""
    ship.eval()
    device = next(ship.parameters()).device
    totals = torch.zeros(len(slots), 2)
    with torch.inference_mode():
        for _, batch in sorted_batches(texts, tokenizer, batch_size=64):
            inputs = batch.to(device)
            ship(**inputs)
            totals += torch.stack([torch.stack(found) for found in _all_squares(slots, masks, inputs)]).cpu()
    missed, moved = totals.T.clone()
    return missed, moved


def read_texts(path: str, key: str = "plan.fitting.texts") -> list[str]:
    """The texts of a text file, one a line; empty lines are left out.

    Raises:
        DataError: the file cannot be read as utf-8, or has no texts.
    """
    try:
        lines = Path(path).expanduser().read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{key} is {path}, which cannot be read ({error}); give a utf-8 text file with one text a line"
        ) from None
    texts = [line.strip() for line in lines if line.strip()]
    if not texts:
        raise DataError(f"{key} is {path}, which has no texts; give a file with one text a line")
    return texts


def add_texts(train: Encoded, texts: list[str], tokenizer: Any, max_length: int) -> Encoded:
    """The training texts and more of them, without labels."""
    return join(without_labels(train), encode(pa.table({"text": texts}), tokenizer, max_length))


def join(first: Encoded, more: Encoded) -> Encoded:
    """All examples of both; columns of tokens that the second lacks are those of single texts."""
    dataset, added = first.dataset, more.dataset
    for name in set(dataset.column_names) - set(added.column_names):  # what a single text leaves out and a pair has
        values = [[int(name == "attention_mask")] * length for length in more.lengths]
        added = added.add_column(name, values, feature=dataset.features[name])
    lengths = np.concatenate([first.lengths, more.lengths])
    return Encoded(concatenate_datasets([dataset, added]), lengths, first.num_cut + more.num_cut, first.zeros)


def first_texts(encoded: Encoded, most: int = HELD_OUT) -> Encoded:
    """At most so many of the texts, from the first on."""
    return encoded.take(range(min(most, len(encoded.lengths))))
