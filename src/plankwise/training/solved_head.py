"""The head behind solved successors, solved on labels; the successors stay as they are.

How far it may go from the predecessor's head is chosen by cross-validation on the training examples; dev is not looked at.
"""

import copy
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from plankwise.core.plan import Plan
from plankwise.data.batch import sorted_batches
from plankwise.data.encode import Encoded
from plankwise.errors import ConfigError
from plankwise.files import explain_full_disk, read_as, whole_file, write_text
from plankwise.models.heads import find_last_map, vectors_given_to
from plankwise.models.plans import assemble
from plankwise.training.heads import HeadChoice, choose_head
from plankwise.training.stage import KeptResult, Stage, StageResult
from plankwise.training.targets import Read, compute_targets
from plankwise.training.weights import read_weights, save_weights

NAME = "solving_head"  # of its stage
WEIGHTS, RESULT = "head.safetensors", "head.json"
ScoreExamples = Callable[[Encoded, np.ndarray], float]  # labelled examples, and logits (N, C) for them


@dataclass(frozen=True)
class SolvedHead:
    """The last linear map of a head, solved, and what the record says of it."""

    path: str  # in predecessor and successor alike
    weights: dict[str, torch.Tensor]
    stage: StageResult
    notes: dict

    def put_into(self, successor: nn.Module) -> None:
        successor.get_submodule(self.path).load_state_dict(self.weights)


@dataclass(frozen=True)
class Found:
    """What solving a head on some examples has given."""

    choice: HeadChoice
    examples: Encoded
    before: np.ndarray  # the logits of the head as it was, (N, C)
    memory: dict[str, int]  # bytes, by what they are for


def check_head(stage: Stage, model: nn.Module) -> str:
    """The path of the map that is to be solved.

    Raises:
        ConfigError: there are no labels, or fewer than two.
        PlanError: the model's head has no such map.
    """
    if "labels" not in stage.train.dataset.column_names or len(stage.train.lengths) < 2:
        raise ConfigError(
            "plan.solving.head is 'labels', for which at least 2 training examples with labels are needed; leave it at 'kept'"
        )
    _, sample = next(sorted_batches(stage.train.take(range(2)), stage.tokenizer, 2))
    return find_last_map(model.eval(), sample.to(next(model.parameters()).device))


def solve_on_labels(
    stage: Stage, model: nn.Module, plan: Plan, successors: list[nn.Module], score: ScoreExamples, most: int
) -> SolvedHead | None:
    """Solves the head on `most` of the stage's examples, drawn by its seed; model and successors are only read.

    It is done once: every rank, and a run that is resumed, takes what was written. None in a rehearsal that computes nothing.

    Raises:
        ConfigError: there are no labels, or fewer than two.
        PlanError: the head has no linear map at its end that is given one vector a text.
        RunError: the disk is full.
    """
    context, file = stage.context, stage.folder / RESULT
    path = check_head(stage, model)
    drawn = np.random.default_rng(context.seed).permutation(len(stage.train.lengths))[:most]
    ends = np.cumsum(stage.train.lengths[drawn])

    def work(tokens: int) -> Found:
        examples = stage.train.take(drawn[: max(2, int(np.searchsorted(ends, tokens)) + 1)])
        own, others = copy.deepcopy((model, successors))
        hybrid = assemble(own, plan, others)
        head = hybrid.get_submodule(path)
        with hybrid.masked(True), vectors_given_to(head) as given:
            computed = compute_targets(hybrid, examples, stage.tokenizer, _read(given), stage.folder, context).arrays
        labels = torch.from_numpy(examples.dataset.with_format("numpy")["labels"][:])
        choice = choose_head(torch.from_numpy(np.array(computed["vectors"])), labels, _plain(head))
        held = [*model.parameters(), *hybrid.parameters()]
        memory = {
            "weights": sum(one.nbytes for one in held),
            "vectors": sum(one.nbytes for one in computed.values()),
        }
        return Found(choice, examples, computed["logits"], memory)

    def write() -> None:
        if file.exists():
            return
        started = time.monotonic()
        stage.folder.mkdir(parents=True, exist_ok=True)
        with explain_full_disk(stage.folder):
            found = stage.compute(work, int(ends[-1]))
        if found is None:
            return
        choice, scores = found.choice, {}
        for name, logits in (("score_before", found.before), ("score", found.choice.logits)):
            scores[name] = float(score(found.examples, logits))
        notes = {"examples": len(found.before), "strength": choice.strength, **scores, "losses": choice.losses}
        with whole_file(stage.folder / WEIGHTS) as part:
            save_weights(choice.head.state_dict(), part)
        seconds = time.monotonic() - started
        result = StageResult(NAME, 0, 0, seconds, seconds, best_step=0, best_score=scores["score"])
        write_text(file, json.dumps(asdict(KeptResult(result, notes))))
        if len(found.before) == len(drawn):  # not in a rehearsal
            context.console.print(describe(notes), soft_wrap=True)

    context.on_main(write)
    if not file.exists():
        return None
    remedy = f"delete {stage.folder} to solve the head anew"
    kept = read_as(file, KeptResult, remedy)
    return SolvedHead(path, read_weights(stage.folder / WEIGHTS, remedy), kept.stage, kept.notes)


def describe(notes: dict) -> str:
    if notes["strength"] is None:
        return (
            f"solving: the head stays as it was: none solved on {notes['examples']} labels is better on those left out"
        )
    return (
        f"solving: the head, on {notes['examples']} labels, score on those left out {notes['score_before']:.4f} before, "
        f"{notes['score']:.4f} after"
    )


def _read(given: list[torch.Tensor]) -> Read:
    def read(model: nn.Module, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        logits = model(**inputs).logits
        return {"vectors": given[0], "logits": logits}

    return read


def _plain(head: Any) -> nn.Linear:
    """The same map on the CPU, in float32."""
    plain = nn.Linear(head.in_features, head.out_features, bias=head.bias is not None)
    plain.load_state_dict(head.state_dict())
    return plain
