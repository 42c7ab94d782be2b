"""MiniLM (Wang et al. 2020, arXiv:2002.10957) and MiniLMv2 (Wang et al. 2021, arXiv:2012.15828): relations between tokens.

Stage `intermediate`, on the student's last block and one block of the predecessor, as means over heads and tokens:
version 1: L = KL(A_T || A_S) + KL(R_T || R_S), A = softmax(Q · Kᵀ / √d), the attention distributions, R = softmax(V · Vᵀ / √d).
version 2: L = sum over X in Q, K, V of KL(R_T || R_S), R = softmax(X · Xᵀ / √d), all heads' vectors joined and divided anew into
`relation_heads`, so that numbers of heads and widths may differ. Nothing is projected.
Stage `prediction`: the loss of `kd`; in the papers alpha = 0, plain fine-tuning.

The papers distil on large text before any task; here it is the task's own texts, or those of a task on text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from plankwise.core.plan import Plan
from plankwise.errors import ConfigError
from plankwise.methods._matching import Distance, Teacher, check_spans, distil, learn_inside, pair_blocks
from plankwise.options import Options as SectionOptions

if TYPE_CHECKING:
    import torch
    from torch import nn

    from plankwise.training.attention import Attention
    from plankwise.training.job import Job, Outcome
    from plankwise.training.stage import Stage, StageResult


class Options(SectionOptions):
    name: Literal["minilm"] = Field("minilm", description="this method")
    share: float = Field(
        0.5, ge=0, lt=1, description="of the steps that relations are learnt in, before the answers; 0: only answers"
    )
    version: Literal[1, 2] = Field(
        2, description="1: attention distributions and relations of values; 2: relations of queries, keys and values"
    )
    layer: Annotated[int, Field(ge=0)] | Literal["last"] = Field(
        "last", description="the predecessor's block, from 0, whose relations the student's last block learns"
    )
    relation_heads: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto",
        description="for version = 2: into how many heads vectors are divided; auto: as many as the predecessor has",
    )
    alpha: float = Field(0.0, ge=0, le=1, description="weight of the predecessor's logits; the labels have the rest")
    T: float = Field(5.0, gt=0, description="temperature")
    reduction: Literal["batchmean", "mean"] = Field(
        "batchmean", description="the divergence per example, or per example and class"
    )


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-4, "warmup_share": 0.1}}


def reads_logits(options: Options) -> bool:
    return options.alpha > 0


def compress(job: Job, options: Options) -> Outcome:
    """Truncates the predecessor by the plan; trains all of it on relations of tokens, then on labels and logits."""
    if not options.share:
        return distil(job.start(gains=True), options)
    check_spans(job.plan, options.name)
    theirs, ours = choose_blocks(job.predecessor, job.plan, options.layer)

    def learn(stage: Stage, student: nn.Module, teacher: Teacher) -> StageResult:
        with relation_distance(student, teacher.model, ours, theirs, stage, options) as distance:
            return learn_inside(stage, student, teacher, distance, job.held_out)

    return distil(job.start(gains=True), options, learn)


def choose_blocks(model: nn.Module, plan: Plan, layer: int | str) -> tuple[str, str]:
    """The paths of the predecessor's block and of the student's last one; of several chains, those of the last.

    Raises:
        ConfigError: the predecessor has no such block.
    """
    theirs, ours = pair_blocks(model, plan, "top")[-1][-1]
    if layer == "last":
        return theirs, ours
    chain, _, last = theirs.rpartition(".")
    if int(layer) > int(last):
        raise ConfigError(
            f"method.layer is {layer}, but the predecessor's {chain} has blocks 0 to {last}; choose one of them, or 'last'"
        )
    return f"{chain}.{layer}", ours


@contextmanager
def relation_distance(
    student: nn.Module, teacher: nn.Module, ours: str, theirs: str, stage: Stage, options: Options
) -> Iterator[Distance]:
    """The loss of the intermediate stage; `ours` and `theirs` are the paths of the blocks.

    Raises:
        PlanError: attentions cannot be read, or for version 1 have other numbers of heads.
        ConfigError: a width cannot be divided into so many relation heads.
    """
    import torch

    from plankwise.training.attention import (
        find_attention,
        mask_name,
        match_attentions,
        reading,
        real_tokens,
        scores_of,
        seen_keys,
    )
    from plankwise.training.losses import relation_loss

    sample = stage.sample(next(student.parameters()).device)
    if options.version == 1:
        (both,) = match_attentions(student, teacher, [(theirs, ours)], sample)
        mine, other = both.ours, both.theirs
    else:
        mine, other = find_attention(student, ours, sample), find_attention(teacher, theirs, sample)
    heads = other.num_heads if options.relation_heads == "auto" else options.relation_heads

    def relations(attention: Attention, states: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        query, key, value = attention.vectors(states)
        if options.version == 1:
            return [scores_of(query, key), scores_of(value, value)]
        return [scores_of(one, one) for one in (divide_heads(all_heads, heads) for all_heads in (query, key, value))]

    with reading(student, attentions=[mine]) as own, reading(teacher, attentions=[other]) as wanted:
        with torch.no_grad():  # finds out now what cannot be divided
            student(**sample)
            teacher(**sample)
        relations(mine, own.states)
        relations(other, wanted.states)

        def distance(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
            real = real_tokens(inputs, mask_name(teacher, theirs), own.states[mine.maps[0]])
            seen = seen_keys(real, causal=other.causal)
            pairs = zip(relations(mine, own.states), relations(other, wanted.states), strict=True)
            return torch.stack([relation_loss(scores, target, seen, real) for scores, target in pairs]).sum()

        yield distance


def divide_heads(vectors: torch.Tensor, count: int) -> torch.Tensor:
    """(B, heads, T, d) to (B, count, T, heads · d / count): the heads' vectors side by side, divided anew.

    Raises:
        ConfigError: their width cannot be divided into so many.
    """
    joined = vectors.transpose(1, 2).flatten(2)
    if joined.shape[-1] % count:
        raise ConfigError(
            f"method.relation_heads is {count}, but queries, keys and values are {joined.shape[-1]} wide, which does not divide "
            "into so many heads; choose a divisor of it"
        )
    return joined.unflatten(-1, (count, -1)).transpose(1, 2)
