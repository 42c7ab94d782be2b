"""Where predecessor and successor are right and wrong on a task's dev examples."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from plankwise.analysis_options import AnalysisOptions
from plankwise.data.source import texts_of
from plankwise.errors import ConfigError
from plankwise.evaluation.errors import MODELS, analyse_errors
from plankwise.evaluation.hand_labels import Answers, read_labels, write_sample
from plankwise.evaluation.rules import apply_rules, compare_classes, describe
from plankwise.runtimes import Predictor
from plankwise.task_kinds import ErrorRequest

if TYPE_CHECKING:
    from plankwise.task_kinds.labels import Labels


def find_errors(
    task: "Labels",
    open_model: Callable[[str], Predictor],
    options: AnalysisOptions,
    request: ErrorRequest,
    before: dict,
    console: Console,
) -> dict | None:
    """What the record says of the errors; None for numbers, where no answer is right or wrong.

    Raises:
        ConfigError: errors are to be labelled, but there are none to label.
    """
    if task.source.kind != "classes":
        if request.sample or request.labels:
            raise ConfigError(
                "the run's task is on numbers, so no answer is right or wrong; leave --sample and --labels out"
            )
        console.print("errors: left out, since the task is on numbers, where no answer is right or wrong")
        return None
    answers, outputs, lengths = _answer(task, open_model, console)
    found = analyse_errors(answers.labels, answers.names, outputs, lengths, answers.texts, keep_texts=options.texts)
    texts = ["\n".join(pair) for pair in answers.texts]
    train_texts = ("\n".join(pair) for pair in texts_of(task.prepared.train))
    members = apply_rules(options.rules, texts, train_texts)
    found["classes"] = {
        "margin": options.margin,
        "rules": [{"name": rule.name, "rule": describe(rule)} for rule in options.rules],
        "rows": compare_classes(members, answers.wrong, answers.labels, binary=answers.binary, margin=options.margin),
    }
    if request.labels is not None:
        found["hand_labels"] = read_labels(request.labels, answers, margin=options.margin)
    elif "hand_labels" in before:
        found["hand_labels"] = before["hand_labels"]
    if request.sample is not None:
        count = write_sample(request.sample, answers, count=request.count, seed=task.seed)
        todo = f"{request.sample}; fill in error_class, then give it as --labels" if count else "neither model made any"
        console.print(f"{count} errors to label by hand: {todo}", soft_wrap=True)
    return found


def _answer(
    task: "Labels", open_model: Callable[[str], Predictor], console: Console
) -> tuple[Answers, dict[str, np.ndarray], list[int]]:
    """Both models' answers to all dev sets one after another, their logits, and the texts' lengths in tokens.

    Classes are in the task's own order, so that class 1 is what the task calls positive.
    """
    source, scorer = task.source, task.scorer
    names = list(source.labels)
    if source.own_order:
        names = [names[index] for index in np.argsort(source.own_order)]
    labels = np.concatenate(list(scorer.labels().values()))
    console.print(f"errors: both models answer {len(labels)} dev examples")
    outputs = {}
    for name in MODELS:
        by_set = task.outputs(open_model(name))
        outputs[name] = source.in_task_order(np.concatenate(list(by_set.values())))
    lengths = np.concatenate([encoded.lengths for encoded in task.dev.values()]).tolist()
    texts = [pair for table in task.prepared.dev.values() for pair in texts_of(table)]
    predicted = {name: values.argmax(axis=1) for name, values in outputs.items()}
    return Answers(texts, names, labels, predicted), outputs, lengths
