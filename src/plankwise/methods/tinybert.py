"""TinyBERT (Jiao et al. 2020, arXiv:1909.10351): the student learns the predecessor's insides first, then its answers.

Stage `intermediate`: L = embedding · MSE(e_S, e_T) + attention · sum of MSE(a_S, a_T) + hidden · sum of MSE(h_S, h_T), summed over
matched blocks. e is what the first block is given, a are attention scores before softmax, h the states behind a block; e_S and
h_S go through one linear map, shared by all, if `projection`. Stage `prediction`: the loss of `kd`; in the paper alpha = 1, T = 1.

Unlike the published code: means are over tokens that are not padding; the teacher is in eval mode, so that no dropout is in what it
teaches; the divergence is per example, not per example and class (`reduction`). Widths always agree here, so that the projection,
which the paper needs, is off by default. The paper's augmented data are `augmentation`, off by default (see `data/augment.py`).
Not here: the general distillation on text before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from plankwise.augmentation_options import AugmentationOptions
from plankwise.methods._matching import Distance, Teacher, check_spans, distil, learn_inside, pair_blocks
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    import torch
    from torch import nn

    from plankwise.training.job import Job, Outcome
    from plankwise.training.stage import Stage, StageResult


class Options(SectionOptions):
    name: Literal["tinybert"] = Field("tinybert", description="this method")
    share: float = Field(0.5, gt=0, lt=1, description="of the steps that the insides are learnt in, before the answers")
    embedding: float = Field(1.0, ge=0, description="weight of what the first block is given")
    attention: float = Field(1.0, ge=0, description="weight of attention scores")
    hidden: float = Field(1.0, ge=0, description="weight of the states behind blocks")
    layers: Literal["ends", "top", "bottom"] = Field(
        "ends",
        description="blocks to learn from: the last of each span, the predecessor's last ones, or its first ones",
    )
    projection: bool = Field(
        False, description="compare states through one learnt linear map, which starts as the identity"
    )
    alpha: float = Field(1.0, ge=0, le=1, description="weight of the predecessor's logits; the labels have the rest")
    T: float = Field(1.0, gt=0, description="temperature")
    reduction: Literal["batchmean", "mean"] = Field(
        "batchmean", description="the divergence per example, or, as the published code has it, per example and class"
    )
    augmentation: AugmentationOptions = Field(AugmentationOptions(), description="changed copies of the training texts")


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def reads_logits(options: Options) -> bool:
    return options.alpha > 0


def compress(job: Job, options: Options) -> Outcome:
    """Truncates the predecessor by the plan; trains all of it on states and attention scores, then on labels and logits."""
    if not (options.embedding or options.attention or options.hidden):
        return distil(job.start(gains=True, augmentation=options.augmentation), options)
    check_spans(job.plan, options.name)
    pairs = [pair for chain in pair_blocks(job.predecessor, job.plan, options.layers) for pair in chain]
    firsts = [f"{path}.0" for path in job.plan.chains]

    def learn(stage: Stage, student: nn.Module, teacher: Teacher) -> StageResult:
        projection = make_projection(student, firsts[0], stage) if options.projection else None
        with inside_distance(student, teacher.model, pairs, firsts, stage, options, projection) as distance:
            modules = {} if projection is None else {"projection": projection}
            return learn_inside(stage, student, teacher, distance, job.held_out, modules)

    return distil(job.start(gains=True, augmentation=options.augmentation), options, learn)


@contextmanager
def inside_distance(
    student: nn.Module,
    teacher: nn.Module,
    pairs: list[tuple[str, str]],
    firsts: list[str],
    stage: Stage,
    options: Options,
    projection: nn.Module | None = None,
) -> Iterator[Distance]:
    """The loss of the intermediate stage; `pairs`: blocks of teacher and student, `firsts`: the first block of each chain.

    Raises:
        PlanError: the attention of a block cannot be read, or has another number of heads.
    """
    import torch

    from plankwise.training.attention import mask_name, match_attentions, reading, real_tokens
    from plankwise.training.losses import state_loss

    sample = stage.sample(next(student.parameters()).device)
    attentions = match_attentions(student, teacher, pairs, sample) if options.attention else []
    before = firsts if options.embedding else []
    after = pairs if options.hidden else []

    def compare(ours: torch.Tensor, theirs: torch.Tensor, path: str, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        real = real_tokens(inputs, mask_name(teacher, path), theirs)
        return state_loss(ours if projection is None else projection(ours), theirs, real)

    with (
        reading(student, before=before, after=[b for _, b in after], attentions=[a.ours for a in attentions]) as ours,
        reading(
            teacher, before=before, after=[a for a, _ in after], attentions=[a.theirs for a in attentions]
        ) as theirs,
    ):

        def distance(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
            embedded = [compare(ours.given[path], theirs.given[path], path, inputs) for path in before]
            attended = [one.distance(ours.states, theirs.states, inputs) for one in attentions]
            hidden = [compare(ours.states[b], theirs.states[a], a, inputs) for a, b in after]
            weighted = ((options.embedding, embedded), (options.attention, attended), (options.hidden, hidden))
            return torch.stack([weight * term for weight, terms in weighted for term in terms]).sum()

        yield distance


def make_projection(student: nn.Module, block: str, stage: Stage) -> nn.Module:
    """A linear map as wide as the states that a block is given, which starts as the identity."""
    import torch
    from torch import nn

    from plankwise.core.taps import tapped

    parameter = next(student.parameters())
    with tapped(student, [block], before=True) as states, torch.no_grad():
        student.eval()(**stage.sample(parameter.device))
        width = states[block].shape[-1]
    projection = nn.Linear(width, width, device=parameter.device)
    nn.init.eye_(projection.weight)
    nn.init.zeros_(projection.bias)
    return projection
