"""What kinds of task without labels share: where their texts are, and what they cannot be asked for."""

from typing import Any

from plankwise.config import RunConfig
from plankwise.data.corpus import Shard, find_shards, shuffled
from plankwise.errors import ConfigError


def find_texts(options: Any, path: str, key: str, seed: int) -> list[Shard]:
    """All pieces of the files at `path`, which `key` gave, as the options say that they are read.

    Raises:
        DataError: nothing to read there.
    """
    shards = find_shards(
        path,
        unit=options.unit,
        column=options.column,
        encoding=options.encoding,
        quoting=options.quoting,
        key=key,
    )
    return shuffled(shards, seed)


def refuse_solved_head(config: RunConfig, task: str) -> None:
    """Lets a config pass that solves no head on labels; `task` says what the task is.

    Raises:
        ConfigError: a head is to be solved on labels.
    """
    if config.plan.solving.head == "labels":
        raise ConfigError(f"plan.solving.head is 'labels', but the task is {task}, which has none; leave it at 'kept'")


def refuse_choosing(config: RunConfig, task: str, why: str) -> None:
    """Lets a config pass in which dev chooses; `why` says what stands in the way of training examples, as part of a sentence.

    Raises:
        ConfigError: training examples are to choose.
    """
    if config.evaluation.choose_on == "train":
        raise ConfigError(
            f"evaluation.choose_on is 'train', which run.effort = 'hours' sets, but the task is {task}, {why}; choose run.effort = "
            "'minutes', or evaluation.choose_on = 'dev'"
        )
