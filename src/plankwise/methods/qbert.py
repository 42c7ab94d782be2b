"""Q-BERT (Shen et al. 2019, arXiv:1909.05840): weights of 2 to 8 bits, more of them in the blocks that the loss depends on most.

All of the model is trained in float32 for `share` of the steps. Then each block's sensitivity is the top eigenvalue of the Hessian
of the task's loss by the weights of its linear maps: |mean| + standard deviation over parts of the examples. Bits are chosen so
that the sum over blocks of sensitivity · squared rounding error is least, at `bits` for a weight in the mean of all blocks. For
the rest of the steps weights are rounded wherever they are used, and gradients pass straight through.

Unlike the paper: bits minimise a sum, as in HAWQ-V2 (Dong et al. 2019, arXiv:1911.03852), where the authors give two levels to
the more and the less sensitive blocks; scales err least on a group, where the paper's are those of the largest weight (`scale`);
each row of an embedding table has a scale of its own; activations stay as they are. On disk weights are packed, in memory they are
float32: the model is smaller to store and to send, and as fast and as large in memory as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from plankwise.errors import ConfigError
from plankwise.methods._matching import check_spans
from plankwise.methods.finetune import truncate
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    from torch import nn

    from plankwise.training.job import Job, Outcome
    from plankwise.training.rounding import Form
    from plankwise.training.stage import StageResult

NOT_QUANTISED = "the training for int8 would move its weights off the values that they are rounded to"
SMALLER = True
WHOLE = 32


class Options(SectionOptions):
    name: Literal["qbert"] = Field("qbert", description="this method")
    bits: float = Field(4.0, ge=2, le=WHOLE, description="bits a weight in the mean of all blocks, 2 to 8; 32: whole")
    choices: list[Literal[2, 3, 4, 8]] = Field(
        [2, 3, 4, 8], min_length=1, description="what the weights of one block may have"
    )
    embedding_bits: Literal[2, 3, 4, 8, 32] = Field(8, description="bits of embedding tables; 32: whole")
    head_bits: Literal[2, 3, 4, 8, 32] = Field(8, description="bits of linear maps outside blocks; 32: whole")
    groups: int = Field(128, ge=1, description="groups of rows in a matrix, each with a scale of its own")
    scale: Literal["best", "largest"] = Field(
        "best", description="errs least on a group, and cuts off the largest weights, or is that of the largest weight"
    )
    share: float = Field(0.5, ge=0, lt=1, description="share of the steps before weights are rounded")
    examples: int = Field(32, ge=1, description="training examples that sensitivity is computed on")
    parts: int = Field(4, ge=1, description="parts of these examples, each with an eigenvalue of its own")
    iterations: int = Field(10, ge=1, description="steps of the power iteration at most")
    alpha: float = Field(0.0, ge=0, le=1, description="weight of the predecessor's logits; the labels have the rest")
    T: float = Field(2.0, gt=0, description="temperature of the predecessor's logits")

    @model_validator(mode="after")
    def _in_reach(self) -> Any:
        low, high = min(self.choices), max(self.choices)
        if self.bits != WHOLE and not low <= self.bits <= high:
            raise ConfigError(
                f"bits is {self.bits:g}, but a block's weights have {low} to {high} bits (choices); choose a mean in between, or "
                f"{WHOLE} to leave blocks whole"
            )
        return self

    @property
    def changes(self) -> bool:
        """Whether anything is rounded."""
        return min(self.bits, self.embedding_bits, self.head_bits) < WHOLE


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def reads_logits(options: Options) -> bool:
    return options.alpha > 0


def compress(job: Job, options: Options) -> Outcome:
    """Truncates the predecessor by the plan, trains all of it, and trains it again with rounded weights.

    Raises:
        PlanError: the plan has slots inside blocks.
    """
    from plankwise.models.planned import with_packing
    from plankwise.training.losses import distilling
    from plankwise.training.rounding import rounded
    from plankwise.training.targets import read_logits

    check_spans(job.plan, options.name)
    start = job.start(gains=any(len(slot.span) > 1 for slot in job.plan.slots))
    shares = {"float": options.share} if options.changes and options.share else {}
    *before, stage = start.stages({**shares, "qbert": 1 - sum(shares.values())})
    targets = stage.targets(job.predecessor, read_logits) if options.alpha else None
    notes: dict[str, Any] = {"targets": targets.to_json(stage.passes)} if targets else {}
    loss = distilling(targets, options.alpha, options.T) if targets else None
    student = truncate(start)
    results = [one.run(student, loss=loss, reads_first_token=True) for one in before]
    if not options.changes:
        return start.outcome(student, stage.run(student, loss=loss, reads_first_token=True), **notes)
    blocks = blocks_of(student, job.plan.chains)
    bits, told, found = choose_for_blocks(job, student, blocks, options)
    results += found
    forms = find_forms(student, blocks, bits, options)
    with rounded(student, forms, cut=options.scale == "best"):
        told_bits = f"{told['mean']:.3g} bits  "
        results.append(stage.run(student, loss=loss, reads_first_token=True, describe=lambda: told_bits))
    return start.outcome(with_packing(student, name_forms(student, forms)), *results, bits=told, **notes)


def blocks_of(model: nn.Module, chains: Sequence[str]) -> dict[str, dict[str, nn.Module]]:
    """The linear maps of each block that has any, by path; one that several blocks share belongs to the first."""
    from plankwise.training.rounding import find_matrices

    matrices = find_matrices(model)
    paths = [f"{chain}.{index}" for chain in chains for index in range(len(model.get_submodule(chain)))]  # type: ignore[arg-type]
    blocks = {block: {path: one for path, one in matrices.items() if path.startswith(f"{block}.")} for block in paths}
    return {block: inside for block, inside in blocks.items() if inside}


def choose_for_blocks(
    job: Job, student: nn.Module, blocks: dict[str, dict[str, nn.Module]], options: Options
) -> tuple[list[int], dict[str, Any], list[StageResult]]:
    """Bits for each block; what the record says of them; the stage that computed sensitivity, if there was a choice."""
    weights: list[list[Any]] = [[one.weight for one in inside.values()] for inside in blocks.values()]
    sizes = [sum(weight.numel() for weight in some) for some in weights]
    told = {"embeddings": options.embedding_bits, "head": options.head_bits}
    choices = [WHOLE] if options.bits == WHOLE else sorted(set(options.choices))
    if choices[0] in (WHOLE, options.bits) or choices[-1] == options.bits or len(blocks) < 2:
        even = max(choice for choice in choices if choice <= options.bits)
        return [even] * len(blocks), {"blocks": [even] * len(blocks), "mean": float(even), **told}, []
    from plankwise.training.curvature import find_sensitivity

    found = find_sensitivity(
        job.stage("sensitivity"),
        student,
        weights,
        examples=options.examples,
        parts=options.parts,
        iterations=options.iterations,
    )
    errors = [[_error(some, choice, options) for choice in choices] for some in weights]
    bits = choose_bits(found.values, errors, sizes, choices, options.bits)
    mean = sum(one * size for one, size in zip(bits, sizes, strict=True)) / sum(sizes)
    return bits, {"blocks": bits, "mean": mean, "sensitivity": found.values, **told}, [found.stage]


def choose_bits(
    sensitivity: Sequence[float],
    errors: Sequence[Sequence[float]],
    sizes: Sequence[int],
    choices: Sequence[int],
    mean: float,
) -> list[int]:
    """Bits for each block so that the sum of sensitivity · error is least, at `mean` bits a weight at most.

    `errors`: for each block the error by choice; `sizes`: its weights. An integer programme, one variable for each pair of them.
    """
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp

    costs = np.asarray(sensitivity)[:, None] * np.asarray(errors)
    costs = costs * (1e3 / (costs.max() or 1.0))  # the solver stops at differences of 1e-6
    used = np.outer(np.asarray(sizes) / sum(sizes), choices) / mean
    once = np.kron(np.eye(len(sizes)), np.ones(len(choices)))
    solved = milp(
        costs.ravel(),
        integrality=np.ones(costs.size),
        bounds=Bounds(0, 1),
        constraints=[LinearConstraint(once, 1, 1), LinearConstraint(used.reshape(1, -1), -np.inf, 1 + 1e-9)],
        options={"mip_rel_gap": 0.0},
    )
    return [choices[place] for place in solved.x.reshape(costs.shape).argmax(1)]


def _error(weights: Sequence[Any], bits: int, options: Options) -> float:
    """The squared error of rounding a block's weights."""
    from plankwise.models.packing import round_matrix

    cut = options.scale == "best"
    parts = [(weight, round_matrix(weight, bits, _rows(weight, options), cut=cut)) for weight in weights]
    return sum(float((whole - one).detach().square().sum()) for whole, one in parts)


def _rows(weight: Any, options: Options) -> int:
    """How many rows of a matrix share a scale."""
    return -(-len(weight) // options.groups)


def find_forms(
    model: nn.Module, blocks: dict[str, dict[str, nn.Module]], bits: Sequence[int], options: Options
) -> dict[str, Form]:
    """How each matrix of a model is rounded, by path; those that stay whole are not in it. What is shared has one form."""
    from torch import nn

    from plankwise.training.rounding import Form, find_matrices

    inside = {path: one for some, one in zip(blocks.values(), bits, strict=True) for path in some}
    matrices: dict[str, Any] = find_matrices(model)
    tables = {id(one.weight) for one in matrices.values() if isinstance(one, nn.Embedding)}
    forms: dict[int, Form] = {}
    for path, one in matrices.items():
        if id(one.weight) in tables:
            form = Form(options.embedding_bits, 1)
        else:
            form = Form(inside.get(path, options.head_bits), _rows(one.weight, options))
        forms.setdefault(id(one.weight), form)
    return {path: forms[id(one.weight)] for path, one in matrices.items() if forms[id(one.weight)].bits < WHOLE}


def name_forms(model: nn.Module, forms: dict[str, Form]) -> dict[str, tuple[int, int]]:
    """The forms by each name that a weight has in a model."""
    by_weight = {id(model.get_submodule(path).weight): form for path, form in forms.items()}
    names = model.named_parameters(remove_duplicate=False)
    return {name: (by_weight[id(one)].bits, by_weight[id(one)].rows) for name, one in names if id(one) in by_weight}
