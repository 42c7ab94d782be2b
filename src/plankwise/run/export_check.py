"""Whether an exported model does what its model does in torch: logits, answers and score on dev."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from plankwise.data.batch import sorted_batches
from plankwise.errors import RunError
from plankwise.models.exported import read_exported
from plankwise.run.inputs import Run
from plankwise.runtimes import Predictor, open_predictor
from plankwise.task_kinds import Task

LARGEST_DIFFERENCE = 1e-4  # of a logit in fp32
MORE_WITH_EXITS = (
    100  # times that: solved heads of low blocks have weights of several hundred, which multiply what floats round off
)
MOST_TEXTS, BATCH = 64, 8  # whose logits are compared where each token has some


def check_export(
    run: Run, reference: Predictor, folder: Path, precision: str, tolerance: float, score: float | None = None
) -> dict[str, Any]:
    """What both models give for the task's dev set; `score`: what the exported one is to have, if not the reference's.

    Raises:
        RunError: the exported model's logits differ although it is fp32, or its score falls by more than the tolerance.
    """
    exported = read_exported(str(folder))
    assert exported is not None
    predictor = open_predictor(exported.runtime, str(folder), run.load)
    predictor.tokenizer = reference.tokenizer
    found = compare(run.task, reference, predictor)
    if score is not None:
        found["torch_score"] = score
    kept = run.task.retained(found["score"], found["torch_score"])
    lost = found["torch_score"] - found["score"] if kept is None else 1 - kept
    allowed = LARGEST_DIFFERENCE * (1 if exported.exits is None else MORE_WITH_EXITS)
    if precision == "fp32" and not found["largest_difference"] < allowed:
        raise RunError(
            f"the exported model's logits differ from torch's by up to {found['largest_difference']:.2g}, though both are fp32 "
            f"and {allowed:g} is allowed; nothing was written: export to another format, and report the model's family"
        )
    if not lost <= tolerance:
        hint = "static quantisation, or fp16 or fp32" if precision == "int8" else "fp32"
        raise RunError(
            f"the exported model scores {found['score']:.4f}, and {found['torch_score']:.4f} in torch: {lost:.2%} lost, more than "
            f"--tolerance {tolerance:g} allows; nothing was written: try {hint}, or allow more"
        )
    return {**found, "lost": lost}


def compare(task: Task, reference: Predictor, predictor: Predictor) -> dict[str, Any]:
    """The largest difference of a logit, the share of equal answers (None where none are classes), and both scores."""
    ours, theirs = task.outputs(reference), task.outputs(predictor)
    if ours:
        scores = [task.score_outputs(outputs)["score"] for outputs in (theirs, ours)]
        pairs = [(ours[name], theirs[name]) for name in ours]
        texts = sum(len(one) for one, _ in pairs)
    else:
        scores = [task.score(one)["score"] for one in (predictor, reference)]
    if not ours or any(
        np.issubdtype(one.dtype, np.integer) for one in ours.values()
    ):  # answers, not what they are read off
        texts, pairs = _logits_of_tokens(task, reference, predictor)
    classes = task.gives_classes and all(one.ndim > 1 for one, _ in pairs)
    equal = np.concatenate([(one.argmax(-1) == other.argmax(-1)).ravel() for one, other in pairs]) if classes else None
    return {
        "texts": texts,
        "largest_difference": max(float(np.abs(one - other).max()) for one, other in pairs),
        "equal_answers": None if equal is None else float(equal.mean()),
        "score": scores[0],
        "torch_score": scores[1],
    }


def _logits_of_tokens(task: Task, *predictors: Predictor) -> tuple[int, list[tuple[np.ndarray, np.ndarray]]]:
    """Logits (N, C) of all tokens of some dev texts by two models, batch by batch; padding is left out."""
    pairs, texts = [], 0
    own = predictors[0].tokenizer  # both have the same
    for rows, batch in sorted_batches(task.held_out_for(own), task.tokenizer if own is None else own, BATCH):
        read = batch["attention_mask"].bool()
        one, other = (_logits(predictor(batch))[read].float().numpy() for predictor in predictors)
        pairs.append((one, other))
        texts += len(rows)
        if texts >= MOST_TEXTS:
            break
    return texts, pairs


def _logits(outputs: Any) -> torch.Tensor:
    if "start_logits" in outputs:  # of spans in a text
        return torch.stack([outputs["start_logits"], outputs["end_logits"]], -1).cpu()
    return outputs["prediction_logits" if "prediction_logits" in outputs else "logits"].cpu()
