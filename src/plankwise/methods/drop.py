"""Blocks that change the states least are left out, then all of the rest is trained: what is done with large decoders.

ShortGPT (Men et al. 2024, arXiv:2403.03853) drops the blocks of the lowest influence, 1 - E cos(states before, states after);
LLM-Streamline (Chen et al. 2024, arXiv:2403.19135) the run of neighbours whose states before its first and after its last block are
most alike, and trains afterwards. As many blocks of each chain go as the plan takes out of it. The first block always stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from plankwise.errors import PlanError
from plankwise.methods.finetune import truncate
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    import torch
    from torch import nn

    from plankwise.core.plan import Plan
    from plankwise.training.job import Job, Outcome

IMITATES = True


class Options(SectionOptions):
    name: Literal["drop"] = Field("drop", description="this method")
    blocks: Literal["neighbours", "any"] = Field(
        "neighbours", description="what is left out of a chain: one run of neighbours, or the blocks that do least"
    )
    tokens: int = Field(30_000, ge=1, description="of training texts, on which states are compared")


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


@dataclass(frozen=True)
class Alike:
    """What `compare_states` found; next to no memory is needed for it beside what a pass of the model takes."""

    cosines: dict[str, list[list[float]]]
    memory: dict[str, int] = field(default_factory=dict)


def compress(job: Job, options: Options) -> Outcome:
    """Leaves out as many blocks as the plan does, those that states show to do least, and trains what is left."""
    from plankwise.training.solved import batches_of, draw_texts

    counts = count_dropped(job.plan)
    stage = job.stage("dropping")

    def look(tokens: int) -> Alike:
        texts, _ = draw_texts(stage.train, tokens, job.seed)
        batches = batches_of(texts, stage.tokenizer, job.predecessor)
        return Alike(compare_states(job.predecessor, list(counts), batches()))

    found = stage.context.on_main(lambda: stage.compute(look, options.tokens))
    dropped = {} if found is None else choose(found.cosines, counts, options.blocks)
    plan = job.plan if found is None else make_plan(dropped)  # a rehearsal may have looked at nothing
    start = replace(job, plan=plan).start()
    rest = truncate(start)
    stage = start.stage("healing")
    noted = {path: list(indices) for path, indices in dropped.items()}
    return start.outcome(rest, stage.run(rest, reads_first_token=True), dropped=noted)


def count_dropped(plan: Plan) -> dict[str, int]:
    """How many blocks the plan takes out of each chain.

    Raises:
        PlanError: none, or a slot is something else than a span of blocks of its family's own kind.
    """
    counts: dict[str, int] = {}
    for slot in plan.slots:
        if not slot.span or slot.part != "layers":
            raise PlanError(
                f"method drop leaves blocks of a chain out, and slot {slot} with part {slot.part!r} asks for another kind of "
                "successor; give plan.successors or plan.spans, and part = 'layers'"
            )
        counts[slot.path] = counts.get(slot.path, 0) + len(slot.span) - 1
    if not any(counts.values()):
        raise PlanError("method drop leaves blocks out, but the plan keeps all of them; give fewer plan.successors")
    return {path: count for path, count in counts.items() if count}


def compare_states(
    model: nn.Module, paths: list[str], batches: Iterable[Mapping[str, torch.Tensor]]
) -> dict[str, list[list[float]]]:
    """By chain of N blocks the mean cosine (N + 1, N + 1), over all tokens but padding, of states before blocks i and j.

    Row and column N are the states after the last block.
    """
    import torch

    from plankwise.core.taps import tapped
    from plankwise.solving.bench import mask_name

    chains = {path: len(model.get_submodule(path)) for path in paths}  # type: ignore[arg-type]
    sums = {path: torch.zeros(length + 1, length + 1, dtype=torch.float64) for path, length in chains.items()}
    seen = dict.fromkeys(chains, 0)
    firsts = [f"{path}.{index}" for path, length in chains.items() for index in range(length)]
    lasts = [f"{path}.{length - 1}" for path, length in chains.items()]
    model.eval()
    with torch.inference_mode(), tapped(model, firsts, before=True) as before, tapped(model, lasts) as after:
        for batch in batches:
            model(**batch)
            for path, length in chains.items():
                states = [before[f"{path}.{index}"] for index in range(length)] + [after[f"{path}.{length - 1}"]]
                mask = batch.get(mask_name(model, path))
                fits = mask is not None and mask.shape == states[0].shape[:-1]
                flat = [state[mask.bool()] if fits else state.flatten(0, -2) for state in states]  # type: ignore[union-attr]
                units = torch.nn.functional.normalize(torch.stack(flat).double(), dim=-1)
                sums[path] += torch.einsum("itd,jtd->ij", units, units).cpu()
                seen[path] += len(flat[0])
    return {path: (total / seen[path]).tolist() for path, total in sums.items()}


def choose(
    cosines: Mapping[str, list[list[float]]], counts: Mapping[str, int], blocks: str
) -> dict[str, tuple[int, ...]]:
    """The blocks of each chain that are left out; the first block never is, and of equals the earlier are."""
    found = {}
    for path, count in counts.items():
        alike, last = cosines[path], len(cosines[path]) - 1
        if blocks == "any":
            by_influence = sorted(range(1, last), key=lambda index: 1 - alike[index][index + 1])
            found[path] = tuple(sorted(by_influence[:count]))
        else:
            begin = max(range(1, last - count + 1), key=lambda index: alike[index][index + count])
            found[path] = tuple(range(begin, begin + count))
    return found


def make_plan(dropped: Mapping[str, tuple[int, ...]]) -> Plan:
    """The plan in which each dropped block belongs to the span of the kept block before it."""
    from plankwise.core.plan import Plan, Slot

    slots = []
    for path, indices in dropped.items():
        for index in indices:
            if index - 1 not in indices:
                run = index
                while run in indices:
                    run += 1
                slots.append(Slot(path, tuple(range(index - 1, run))))
    return Plan(tuple(slots))
