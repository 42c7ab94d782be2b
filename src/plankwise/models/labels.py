"""The classes of a trained head against the classes of a task: names and their order."""

from typing import Any

from plankwise.errors import ConfigError

NEW_HEAD = ", or train a new head with predecessor.finetune = true"  # the end of a sentence


def has_names(labels: list[str]) -> bool:
    """Whether a head's classes have names of their own, not LABEL_0, LABEL_1 and so on."""
    return labels != [f"LABEL_{index}" for index in range(len(labels))]


def check_labels(config: Any, labels: tuple[str, ...], path: str, *, otherwise: str = NEW_HEAD) -> None:
    """Compares the classes of a trained head with the task's, before anything is trained or scored.

    `otherwise` ends the sentence: what else could be done.

    Raises:
        ConfigError: other names, or the same names in another order.
    """
    own = [str(config.id2label[index]) for index in range(len(config.id2label))]
    if not labels:
        if len(own) != 1:
            raise ConfigError(
                f"{path} has {len(own)} classes, but the task's label is a number; use a model trained on this task{otherwise}"
            )
        return
    if len(own) != len(labels):
        raise ConfigError(
            f"{path} has {len(own)} classes ({', '.join(own)}), but the task has {len(labels)} "
            f"({', '.join(labels)}); use a model trained on this task{otherwise}"
        )
    if not has_names(own):
        return  # no names to compare: the scores are looked at later
    folded = [name.lower() for name in own]
    wanted = [name.lower() for name in labels]
    if folded == wanted:
        return
    if sorted(folded) == sorted(wanted):
        order = [labels[wanted.index(name)] for name in folded]
        raise ConfigError(
            f"{path} orders its classes {', '.join(own)}, the task {', '.join(labels)}; "
            f"set task.labels = {order} so that they agree{otherwise}"
        )
    raise ConfigError(
        f"{path} has the classes {', '.join(own)}, the task {', '.join(labels)}; "
        f"set id2label in its config.json to the task's names if they mean the same{otherwise}"
    )
