"""Early exits (PABEE, Zhou et al. 2020, arXiv:2006.04152): a head after each block; a text leaves once its answer stops changing.

The plan's successors get the heads, and all are trained together: L = sum of j · L_j / sum of j over the heads j. Then, beyond the
paper, each head is solved anew on what it is given (see `training/exit_heads.py`), and stays so where it is better. The paper tries
several patiences on dev; here training examples that were kept out choose: the smallest whose score is close to the whole model's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from plankwise.methods.finetune import truncate
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import nn

    from plankwise.data.encode import Encoded
    from plankwise.training.job import Job, Outcome
    from plankwise.training.stage import Stage

NOT_QUANTISED = "a model with early exits cannot be exported to int8"
MOST_KEPT_OUT = 1000  # training examples that choose heads and patience: more of them say little more
MOST_SOLVED = 2000  # others that heads are solved on


class Options(SectionOptions):
    name: Literal["exits"] = Field("exits", description="this method")
    patience: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto",
        description="how many answers in a row have to be the same as the one before; auto: chosen by `within`",
    )
    within: float = Field(
        0.01,
        ge=0,
        description="for patience = auto: how far below the whole model's score that of early answers may lie",
    )
    kept_out: float = Field(
        0.1,
        gt=0,
        le=0.5,
        description="for patience = auto: share of the training examples that choose it, 1000 at most",
    )
    tolerance: float = Field(0.1, gt=0, description="numbers that differ by less are the same answer")


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def compress(job: Job, options: Options) -> Outcome:
    """Gives the plan's successors a head each, trains all on the heads' losses, solves the heads, and chooses the patience."""
    from plankwise.models.exits import HEADS
    from plankwise.models.planned import with_exits
    from plankwise.training.exit_heads import Answered, solve_heads

    changes = any(len(slot.span) != 1 or slot.part != "layers" for slot in job.plan.slots)
    start = job.start(gains=changes)
    stage, few, num_kept_out = keep_out(start.stage("exits"), options.kept_out)
    model: Any = with_exits(truncate(start), tolerance=options.tolerance)
    result = stage.run(model, reads_first_token=True)

    targets = few.outputs(model, _read)
    labels = few.train.dataset.with_format("numpy")["labels"][:]
    kept_out = Answered.of(targets.arrays, labels, slice(num_kept_out))
    others = Answered.of(targets.arrays, labels, slice(num_kept_out, None))
    heads, device = getattr(model, HEADS), next(model.parameters()).device
    kinds = solve_heads(heads, others, kept_out)
    found = choose(job, few.train.take(range(num_kept_out)), kept_out.logits(heads), options)
    heads.to(device)
    model.patience = found["patience"]
    return start.outcome(model, result, patience={**found, "heads": kinds}, targets=targets.to_json(1))


def keep_out(stage: Stage, share: float) -> tuple[Stage, Stage, int]:
    """The stage without some of its examples, drawn by its seed, for as many steps; one with those, and some of the others behind
    them; how many were kept out.

    Raises:
        ConfigError: there is only one example.
    """
    from dataclasses import replace

    import numpy as np

    from plankwise.errors import ConfigError

    texts, count = stage.train, len(stage.train.lengths)
    if count < 2:
        raise ConfigError(
            "method.name is 'exits', which keeps some training examples out to choose heads and patience by, and there is 1; "
            "give more"
        )
    order = np.random.default_rng(stage.context.seed).permutation(count)
    few = max(1, min(MOST_KEPT_OUT, round(share * count)))
    rest = replace(stage.with_steps(stage.num_steps), train=texts.take(np.sort(order[few:])))
    return rest, replace(stage, train=texts.take(order[: few + MOST_SOLVED])), few


def choose(job: Job, examples: Encoded, logits: np.ndarray, options: Options) -> dict:
    """The patience that is asked for, or the smallest whose score is at most `within` below the whole model's; with what was found.

    `logits` (N, blocks, C) are what the heads answer for the examples.

    Raises:
        ConfigError: the task has no score for training examples.
    """
    import numpy as np

    from plankwise.models.patience import exit_blocks

    rows, last = np.arange(len(logits)), logits.shape[1]
    tried = []
    for patience in range(1, last):
        blocks = np.array(exit_blocks(logits, patience, options.tolerance))
        score = job.score_examples(examples, logits[rows, blocks - 1])
        tried.append({"patience": patience, "score": score, "mean_block": float(blocks.mean())})
    whole = tried[-1]["score"]  # with it every text runs through all blocks
    good = [one["patience"] for one in tried if one["score"] >= whole - options.within]
    chosen = options.patience if options.patience != "auto" else good[0] if good else last - 1
    return {"patience": chosen, "examples": len(logits), "within": options.within, "tried": tried}


def _read(model: nn.Module, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    from plankwise.models.exits import vectors_by_block

    vectors, last = vectors_by_block(model, inputs)
    return {"vectors": vectors, "last": last}
