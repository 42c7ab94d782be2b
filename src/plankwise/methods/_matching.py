"""Which blocks of predecessor and student are compared, and the stage in which a student learns the predecessor's insides.

States and attentions are one or more for each token and pair of tokens: too many to keep for every training example. So a frozen
copy of the predecessor runs beside the student, in eval mode, in every step. No label is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from plankwise.core.plan import Plan
from plankwise.errors import PlanError
from plankwise.methods.finetune import truncate

if TYPE_CHECKING:
    import torch
    from torch import nn

    from plankwise.data.encode import Encoded
    from plankwise.task_kinds import Loss
    from plankwise.training.job import Outcome, Start
    from plankwise.training.stage import Stage, StageResult

Distance: TypeAlias = (
    "Callable[[dict[str, torch.Tensor]], torch.Tensor]"  # of a batch that student and teacher just ran on
)
Learn: TypeAlias = "Callable[[Stage, nn.Module, Teacher], StageResult]"
Beside: TypeAlias = "Callable[[Loss, Stage, nn.Module, Teacher], AbstractContextManager[Loss]]"


def pair_blocks(model: nn.Module, plan: Plan, layers: str) -> list[list[tuple[str, str]]]:
    """For each chain, a block of the predecessor for each block of the student, as paths in their models.

    `ends`: the last block of the span, or the block itself where it is in no span; `top`: the predecessor's last blocks;
    `bottom`: its first.
    """
    chains: list[list[tuple[str, str]]] = []
    for path in dict.fromkeys(slot.path for slot in plan.slots if slot.span):
        length = len(model.get_submodule(path))  # type: ignore[arg-type]
        ends = {slot.span[0]: slot.span[-1] for slot in plan.slots if slot.path == path}
        kept = plan.kept(path, length)
        chosen = {
            "ends": [ends.get(index, index) for index in kept],
            "top": list(range(length - len(kept), length)),
            "bottom": list(range(len(kept))),
        }[layers]
        chains.append([(f"{path}.{theirs}", f"{path}.{ours}") for ours, theirs in enumerate(chosen)])
    return chains


def check_spans(plan: Plan, method: str, otherwise: str = "choose method.name = 'kd'") -> None:
    """Lets plans of spans pass. `otherwise` ends the sentence.

    Raises:
        PlanError: a slot is inside a block.
    """
    for slot in plan.slots:
        if not slot.span:
            raise PlanError(
                f"method {method} works on whole blocks, and slot {slot} is none; give plan.successors or plan.spans, or "
                f"{otherwise}"
            )


class Teacher:
    """A frozen copy of a predecessor, in eval mode, which draws nothing at random."""

    def __init__(self, predecessor: nn.Module) -> None:
        import copy

        self.model = copy.deepcopy(predecessor).eval().requires_grad_(False)

    def __call__(self, inputs: dict[str, torch.Tensor], until: str | None = None) -> None:
        """Runs on a batch, to the end or until the module at a path has run; labels are not read."""
        import torch

        with torch.no_grad():
            run_until(self.model, {name: value for name, value in inputs.items() if name != "labels"}, until)


def run_until(model: nn.Module, inputs: dict[str, torch.Tensor], path: str | None) -> None:
    """A pass for what is tapped, which is left behind the module at a path; None: none is."""
    from plankwise.solving.bench import stopping_after
    from plankwise.solving.maps import Stop

    with nullcontext() if path is None else stopping_after(model.get_submodule(path)), suppress(Stop):
        model(**inputs)


@contextmanager
def transferring(
    loss: Loss,
    model: nn.Module,
    teacher: Teacher | None,
    pairs: Collection[tuple[str, str]],
    stage: Stage,
    weight: float,
) -> Iterator[Loss]:
    """A loss that runs the model, and `weight` times the distance of attention scores from the teacher's added to it.

    The distance is the mean over those of the model's blocks that ran; `pairs`: blocks of the teacher and of the model.

    Raises:
        PlanError: the attention of a block cannot be read, or has another number of heads.
    """
    import torch

    from plankwise.training.attention import match_attentions, reading

    if teacher is None:
        yield loss
        return
    found = match_attentions(model, teacher.model, pairs, stage.sample(next(model.parameters()).device))
    with (
        reading(model, attentions=[one.ours for one in found]) as ours,
        reading(teacher.model, attentions=[one.theirs for one in found]) as theirs,
    ):

        def both(model: nn.Module, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
            ours.forget()
            told = loss(model, inputs, rows)
            ran = [one for one in found if one.ours.ran(ours.states)]
            if not ran:  # a step that trains nothing
                return told
            teacher(inputs)
            distances = [one.distance(ours.states, theirs.states, inputs) for one in ran]
            return told + weight * torch.stack(distances).mean()

        yield both


def distil(
    start: Start,
    options: Any,
    learn: Learn | None = None,
    stages: Sequence[str] = ("intermediate",),
    beside: Beside | None = None,
) -> Outcome:
    """Truncates the predecessor; `learn`, if given, trains it in the first `options.share` of the steps, then the loss of `kd`.

    The named stages have equal parts of that share. `beside` makes another loss of the last one's.
    """
    from plankwise.training.losses import distilling, task_loss
    from plankwise.training.targets import read_logits

    predecessor = start.job.predecessor
    shares = dict.fromkeys(stages, options.share / len(stages)) if learn else {}
    *before, prediction = start.stages({**shares, "prediction": 1 - sum(shares.values())})
    # The loss of an imitation is the distance from the predecessor's answers already.
    distils = options.alpha and start.job.imitation is None
    targets = prediction.targets(predecessor, read_logits) if distils else None
    teacher = Teacher(predecessor) if learn or beside else None
    student = truncate(start)
    results = [learn(stage, student, teacher) for stage in before] if learn and teacher else []
    plain = (
        distilling(targets, options.alpha, options.T, options.reduction, task=prediction.loss)
        if targets
        else task_loss(prediction.loss)
    )
    with beside(plain, prediction, student, teacher) if beside and teacher else nullcontext(plain) as loss:
        results.append(prediction.run(student, loss=loss, reads_first_token=beside is None))
    notes: dict[str, Any] = {"targets": targets.to_json(prediction.passes)} if targets else {}
    return start.outcome(student, *results, **notes)


def learn_inside(
    stage: Stage,
    student: nn.Module,
    teacher: Teacher,
    distance: Distance,
    held_out: Encoded,
    modules: dict[str, nn.Module] | None = None,
    *,
    until: tuple[str, str] | None = None,
    dropout: bool = True,
) -> StageResult:
    """Trains a student on the distance from its teacher, on texts alone; the best weights have the smallest on held-out texts.

    `modules` are the distance's own: trained beside the student, and thrown away. `until`: blocks of teacher and student behind
    which it reads nothing. Without `dropout` the student has none.
    """
    import torch

    from plankwise.data.batch import sorted_batches
    from plankwise.training.fitting import first_texts

    texts = first_texts(held_out)
    theirs, ours = until or (None, None)

    def run_both(model: nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        run_until(model, inputs, ours)
        teacher(inputs, theirs)
        return distance(inputs)

    def loss(model: nn.Module, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        return run_both(model if dropout else model.eval(), inputs)

    def measure() -> float:
        student.eval()
        total, device = 0.0, next(student.parameters()).device
        with torch.inference_mode():
            for rows, batch in sorted_batches(texts, stage.tokenizer, batch_size=64):
                total += len(rows) * float(run_both(student, batch.to(device)))
        return total / len(texts.lengths)

    def score(model: nn.Module) -> dict[str, float]:
        return {"score": -stage.context.on_main(measure)}

    return stage.on_texts(score).run(student, loss=loss, modules=modules)
