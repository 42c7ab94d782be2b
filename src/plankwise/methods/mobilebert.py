"""MobileBERT (Sun et al. 2020, arXiv:2004.02984): a bottleneck for each block learns what its block gives, from below.

Each successor learns from the last block of its span: L = states · MSE(n(h_S), n(h_T)) + mean · MSE(μ_S, μ_T) + variance ·
|σ²_S − σ²_T| + attention · KL(A_T || A_S), h the states behind the block, n(h) = (h − μ) / σ over a state's width, A the attention
distributions. Variants: `progressive`, a stage for each successor, in which those below it are frozen or learn slowly, then the
loss of `kd`; `joint`, one stage on the sum of L, then that; `auxiliary`, the sum of L beside the loss of `kd`.

n and both moments are the published code's way to take the paper's MSE of states apart; weights are a hundredth of its. Unlike
there: numbers of heads may differ; the teacher is the predecessor, not a wider model with bottlenecks of its own; all learn on the
task's own texts, not on a large corpus; embeddings stay as they are; LayerNorm stays, and so does the predecessor's activation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from plankwise.errors import PlanError
from plankwise.methods._matching import Distance, Teacher, check_spans, distil, learn_inside, pair_blocks
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    import torch
    from torch import nn

    from plankwise.task_kinds import Loss
    from plankwise.training.job import Job, Outcome
    from plankwise.training.stage import Stage, StageResult

IMITATES = True

Pairs = list[tuple[str, str]]  # blocks of the predecessor and of the student


class Options(SectionOptions):
    name: Literal["mobilebert"] = Field("mobilebert", description="this method")
    variant: Literal["progressive", "joint", "auxiliary"] = Field(
        "progressive",
        description="successors learn their blocks one after the other from below, all at once, or beside the answers",
    )
    share: float = Field(
        0.5, ge=0, lt=1, description="of the steps that blocks are learnt in, before the answers; 0: only answers"
    )
    learning_rate: float = Field(
        1e-3, gt=0, description="peak learning rate while blocks are learnt before the answers"
    )
    below: float = Field(
        0.0, ge=0, le=1, description="share of it for the successors below the one that learns; 0: they are frozen"
    )
    states: float = Field(1.0, ge=0, description="weight of the states behind blocks")
    normalised: bool = Field(True, description="compare states with mean 0 and variance 1 each")
    mean: float = Field(50.0, ge=0, description="weight of states' means, squared differences")
    variance: float = Field(0.05, ge=0, description="weight of states' variances, absolute differences")
    attention: float = Field(0.01, ge=0, description="weight of attention distributions")
    heads: Literal["grouped", "equal"] = Field(
        "grouped",
        description="grouped: where numbers of heads differ, means of groups are compared; equal: that is refused",
    )
    alpha: float = Field(0.5, ge=0, le=1, description="weight of the predecessor's logits; the labels have the rest")
    T: float = Field(1.0, gt=0, description="temperature")
    reduction: Literal["batchmean", "mean"] = Field(
        "batchmean", description="the divergence per example, or per example and class"
    )


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections; of the plan, where a recipe does not say its shape itself."""
    return {
        "plan": {"part": "bottleneck", "cut": "each"},
        "training": {"learning_rate": 1e-4, "warmup_share": 0.1},
    }


def reads_logits(options: Options) -> bool:
    return options.alpha > 0


def compress(job: Job, options: Options) -> Outcome:
    """Puts successors in place by the plan; trains them on states and attention, as the variant says, then all on the answers.

    Raises:
        PlanError: a slot is inside a block, a successor has no weights, or an attention that has a weight cannot be read.
    """
    weights = (options.states, options.mean, options.variance, options.attention)
    if not any(weights) or not (options.share or options.variant == "auxiliary"):
        return distil(job.start(gains=True), options)
    check_spans(job.plan, options.name)
    pairs = pair_successors(job)
    if options.variant == "auxiliary":

        def beside(loss: Loss, stage: Stage, student: nn.Module, teacher: Teacher) -> Any:
            return adding(loss, student, teacher, pairs, stage, options)

        return distil(job.start(gains=True), options, beside=beside)
    joint = options.variant == "joint"
    parts = {"transfer": pairs} if joint else {f"transfer-{n}": [pair] for n, pair in enumerate(pairs, start=1)}

    def learn(stage: Stage, student: nn.Module, teacher: Teacher) -> StageResult:
        return transfer(stage, student, teacher, pairs, parts[stage.name], job, options)

    return distil(job.start(gains=True), options, learn, list(parts))


def pair_successors(job: Job) -> Pairs:
    """For each slot the last block of its span, and where its successor is once it has taken the span's place."""
    ends = {slot.places[-1] for slot in job.plan.slots}
    return [pair for chain in pair_blocks(job.predecessor, job.plan, "ends") for pair in chain if pair[0] in ends]


def transfer(
    stage: Stage, student: nn.Module, teacher: Teacher, every: Pairs, pairs: Pairs, job: Job, options: Options
) -> StageResult:
    """Trains the successors of some of the pairs on their blocks, those before them in `every` slowly or not at all."""
    from plankwise.training.stage import trained_alone

    own = names_in(student, [ours for _, ours in pairs])
    if not own:
        raise PlanError(
            f"stage {stage.name} has nothing to train: the successor {pairs[0][1]} has no weights; choose another plan.part, or "
            "method.variant = 'joint'"
        )
    before = [ours for _, ours in every[: every.index(pairs[0])]] if options.below else []
    slow = dict.fromkeys(names_in(student, before) - own, options.below)
    stage = replace(stage.with_steps(stage.num_steps, learning_rate=options.learning_rate), slow=slow)
    until = pairs[0] if len(pairs) == 1 else None
    with (
        trained_alone(student, own | slow.keys()),
        transfer_distance(student, teacher.model, pairs, stage, options) as distance,
    ):
        return learn_inside(stage, student, teacher, distance, job.held_out, until=until, dropout=False)


def names_in(model: nn.Module, blocks: list[str]) -> set[str]:
    """The names of the model's parameters that are in any of the blocks, whichever of their names the model knows them by."""
    inside = {id(one) for path in blocks for one in model.get_submodule(path).parameters()}
    return {name for name, one in model.named_parameters() if id(one) in inside}


@contextmanager
def adding(
    loss: Loss, student: nn.Module, teacher: Teacher, pairs: Pairs, stage: Stage, options: Options
) -> Iterator[Loss]:
    """A loss that runs the student, and the distance of all pairs added to it."""
    with transfer_distance(student, teacher.model, pairs, stage, options) as distance:

        def both(model: nn.Module, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
            told = loss(model, inputs, rows)
            teacher(inputs)
            return told + distance(inputs)

        yield both


@contextmanager
def transfer_distance(
    student: nn.Module, teacher: nn.Module, pairs: Pairs, stage: Stage, options: Options
) -> Iterator[Distance]:
    """The sum of L over pairs of blocks.

    Raises:
        PlanError: the attention of a block cannot be read, or has another number of heads, and they are to be equal.
    """
    import torch

    from plankwise.training.attention import mask_name, match_attentions, reading, real_tokens
    from plankwise.training.losses import moment_losses, normed_state_loss, state_loss

    sample = stage.sample(next(student.parameters()).device)
    equal = options.heads == "equal"
    attentions = match_attentions(student, teacher, pairs, sample, as_many_heads=equal) if options.attention else []
    after = pairs if options.states or options.mean or options.variance else []
    compare = normed_state_loss if options.normalised else state_loss

    def weigh(ours: torch.Tensor, theirs: torch.Tensor, path: str, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        real = real_tokens(inputs, mask_name(teacher, path), theirs)
        mean, variance = moment_losses(ours, theirs, real)
        return options.states * compare(ours, theirs, real) + options.mean * mean + options.variance * variance

    with (
        reading(student, after=[b for _, b in after], attentions=[a.ours for a in attentions]) as ours,
        reading(teacher, after=[a for a, _ in after], attentions=[a.theirs for a in attentions]) as theirs,
    ):

        def distance(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
            states = [weigh(ours.states[b], theirs.states[a], a, inputs) for a, b in after]
            attended = [options.attention * a.divergence(ours.states, theirs.states, inputs) for a in attentions]
            return torch.stack([*states, *attended]).sum()

        yield distance
