"""The solved start: the successors' linear maps by least squares on some of a stage's texts; no label is read (see `solving`)."""

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from plankwise.core.plan import Plan
from plankwise.data.batch import sorted_batches
from plankwise.data.encode import Encoded
from plankwise.files import explain_full_disk, read_as, whole_file, write_text
from plankwise.solving.solve import Build, Solution, solve
from plankwise.training.stage import KeptResult, Stage, StageResult
from plankwise.training.weights import load_weights, save_weights

BATCH_SIZE = 64
HELD_OUT = 256  # texts, at most, that choose between candidates
HELD_OUT_SHARE = 0.05  # of the tokens, at most
WEIGHTS, RESULT = "solved.safetensors", "solved.json"


@dataclass(frozen=True)
class Solved:
    """Solved successors, and what the record says of them."""

    successors: list[nn.Module]
    stage: StageResult
    notes: dict


def solve_start(stage: Stage, model: nn.Module, plan: Plan, build: Build, tokens: int) -> Solved:
    """Solves a plan's successors on as many tokens of the stage's texts, drawn by its seed; the model is only read.

    It is done once: every rank, and a run that is resumed, takes what was written.

    Raises:
        PlanError: a successor does not end in a linear map, or shares weights with another.
        RunError: the disk is full.
    """
    context, file = stage.context, stage.folder / RESULT

    def work(amount: int) -> Solution:
        calibration, held_out = draw_texts(stage.train, amount, context.seed)
        # The folder's name is one that is swept if this process is killed.
        with (
            explain_full_disk(stage.folder),
            tempfile.TemporaryDirectory(prefix=".states.", suffix=".part", dir=stage.folder) as folder,
        ):
            return solve(
                model,
                plan,
                build,
                batches_of(calibration, stage.tokenizer, model),
                list(batches_of(held_out, stage.tokenizer, model)()),
                Path(folder),
                show=show if amount == tokens else lambda line: None,
            )

    def show(line: str) -> None:
        context.console.print(line, soft_wrap=True)

    def write() -> None:
        if file.exists():
            return
        stage.folder.mkdir(parents=True, exist_ok=True)
        solution = stage.compute(work, tokens)
        if solution is None:
            return
        result = StageResult("solving", 0, 0, solution.seconds, solution.seconds, 0, -solution.slots[-1]["effect"])
        weights = _gather(solution.successors)
        with whole_file(stage.folder / WEIGHTS) as part:
            save_weights({name: value.clone() for name, value in weights.items()}, part)
        used = draw_texts(stage.train, tokens, context.seed)[0].lengths
        notes = {"texts": len(used), "tokens": int(used.sum()), **solution.to_json()}
        write_text(file, json.dumps(asdict(KeptResult(result, notes))))

    context.on_main(write)
    successors = build("lower")
    if not file.exists():  # a rehearsal
        return Solved(successors, StageResult("solving", 0, 0, 0.0, 0.0, 0, 0.0), {})
    remedy = f"delete {stage.folder} to solve the successors anew"
    found = read_as(file, KeptResult, remedy)
    load_weights(nn.ModuleList(successors), stage.folder / WEIGHTS, remedy)
    return Solved(successors, found.stage, found.notes)


def _gather(successors: list[nn.Module]) -> dict[str, Any]:
    return nn.ModuleList(successors).state_dict()


def draw_texts(texts: Encoded, tokens: int, seed: int) -> tuple[Encoded, Encoded]:
    """So many tokens of texts, drawn by the seed, and others held out; of a single text, the same twice."""
    order = np.random.default_rng(seed).permutation(len(texts.lengths))
    ends = np.cumsum(texts.lengths[order])
    held = max(1, min(HELD_OUT, len(order) // 2, int(np.searchsorted(ends, HELD_OUT_SHARE * tokens)) + 1))
    rest = order[held:] if len(order) > 1 else order
    count = int(np.searchsorted(np.cumsum(texts.lengths[rest]), tokens)) + 1
    return texts.take(rest[:count]), texts.take(order[:held])


def batches_of(texts: Encoded, tokenizer: Any, model: nn.Module) -> Callable[[], Iterator[Any]]:
    """The texts in batches of like length, on the model's device; the same whenever it is called."""
    device = next(model.parameters()).device
    return lambda: (batch.to(device) for _, batch in sorted_batches(texts, tokenizer, BATCH_SIZE))
