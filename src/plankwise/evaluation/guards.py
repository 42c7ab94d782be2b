"""Guard rails: what must hold of a predecessor before its successors are trained; each can be ignored by its name."""

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
from scipy.optimize import linear_sum_assignment

from plankwise.errors import RunError
from plankwise.evaluation.metrics import majority_score
from plankwise.evaluation.scoring import Scorer
from plankwise.models.labels import NEW_HEAD

MAJORITY, LABEL_ORDER = "majority", "label_order"  # the guards, as evaluation.ignore_guards names them
TRAIN_HERE = "train it on the task with predecessor.finetune = true"
TRAIN_BETTER = "train it longer (predecessor.training.epochs) or with another predecessor.training.learning_rate"
SWAP_MARGIN = 0.1  # accuracy that renaming the classes must win before it is called a swap


def enforce(faults: Mapping[str, str], ignored: Collection[str]) -> dict[str, str]:
    """The faults, by their guards, that are ignored.

    Raises:
        RunError: there is one that is not; says how to ignore it.
    """
    for guard, fault in faults.items():
        if guard not in ignored:
            raise RunError(f'{fault}, or go on anyway with evaluation.ignore_guards=["{guard}"]')
    return dict(faults)


def find_faults(
    scorer: Scorer, outputs: dict[str, np.ndarray], train: pa.Table, path: str, *, given: bool = False
) -> dict[str, str]:
    """What is wrong, by guard, with the outputs on dev of a predecessor that was trained here, or given by the user."""
    source = scorer.source
    swapped = find_swap(scorer, outputs, path)
    faults = {LABEL_ORDER: f"{swapped}{NEW_HEAD}"} if swapped else {}
    score = scorer.score(outputs)["score"]
    train_labels = source.label_in_task_order(train["label"].to_numpy())
    majority = np.mean(
        [
            majority_score(source.metrics, source.score, train_labels, dev, source.kind)
            for dev in scorer.labels().values()
        ]
    )
    if score <= majority:
        always = "the mean" if source.kind == "number" else "the most frequent class"
        faults[MAJORITY] = (
            f"the predecessor {path} scores {score:.4f} on dev, no better than always answering {always} ({majority:.4f}); "
            f"there is nothing to keep: {TRAIN_HERE if given else TRAIN_BETTER}, or give one that has learnt the task"
        )
    return faults


def find_swap(scorer: Scorer, outputs: dict[str, np.ndarray], path: str) -> str:
    """How to name the classes of a model that would be right far more often with other names; empty if there is no need.

    A task on numbers has no classes to name.
    """
    names = scorer.source.labels
    if not names:
        return ""
    predicted = np.concatenate([values.argmax(1) for values in outputs.values()])
    labels = np.concatenate([np.asarray(encoded.dataset["labels"]) for encoded in scorer.dev.values()])
    counts = np.zeros((len(names), len(names)), dtype=int)
    np.add.at(counts, (predicted, labels), 1)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    as_is, best = np.trace(counts) / len(labels), counts[rows, columns].sum() / len(labels)
    if best - as_is <= SWAP_MARGIN:
        return ""
    order = [names[column] for column in columns]
    return (
        f"{path} orders its classes otherwise than the task: read as {', '.join(names)} it is right in "
        f"{as_is:.1%} of the dev examples, read as {', '.join(order)} in {best:.1%}; set task.labels = {order}"
    )
