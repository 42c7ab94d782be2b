"""Guard rails: what must hold of a predecessor before its successors are trained."""

import numpy as np
import pyarrow as pa
from scipy.optimize import linear_sum_assignment
from torch import nn

from plankwise.errors import RunError
from plankwise.evaluation.metrics import majority_score
from plankwise.evaluation.scoring import Scorer

SWAP_MARGIN = 0.1  # accuracy that renaming the classes must win before it is called a swap


def check_predecessor(scorer: Scorer, model: nn.Module, train: pa.Table, path: str) -> None:
    """Looks at the predecessor's outputs on dev.

    Raises:
        RunError: its classes are in another order than the task's, or it is no better than the majority class.
    """
    source = scorer.source
    check_order(scorer, model, path)
    score = scorer.score(model)["score"]
    train_labels = source.label_in_task_order(train["label"].to_numpy())
    floor = np.mean(
        [
            majority_score(source.metrics, source.score, train_labels, dev, source.kind)
            for dev in scorer.labels().values()
        ]
    )
    if score <= floor:
        always = "the mean" if source.kind == "number" else "the most frequent class"
        raise RunError(
            f"the predecessor {path} scores {score:.4f} on dev, no better than always answering {always} ({floor:.4f}); "
            "there is nothing to keep: train it longer (predecessor.training.epochs), with another "
            "predecessor.training.learning_rate, or give one that has learnt the task"
        )


def check_order(scorer: Scorer, model: nn.Module, path: str) -> None:
    """Looks whether the model would be right far more often if its classes were named otherwise; numbers pass.

    Raises:
        RunError: it would; says how to name them.
    """
    names = scorer.source.labels
    if not names:
        return
    outputs, labels = scorer.outputs(model)
    counts = np.zeros((len(names), len(names)), dtype=int)
    np.add.at(counts, (outputs.argmax(1), labels), 1)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    as_is, best = np.trace(counts) / len(labels), counts[rows, columns].sum() / len(labels)
    if best - as_is > SWAP_MARGIN:
        order = [names[column] for column in columns]
        raise RunError(
            f"{path} orders its classes otherwise than the task: read as {', '.join(names)} it is right in "
            f"{as_is:.1%} of the dev examples, read as {', '.join(order)} in {best:.1%}; set task.labels = {order}, or "
            "train a new head with predecessor.finetune = true"
        )
