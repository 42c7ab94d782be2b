"""Cross-encoders: models that give a query with a text one score, as `CrossEncoder` of sentence-transformers loads them.

What that library makes of a logit, its sigmoid or the logit itself, stands in the model's files: in config.json, or beside it.
"""

from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification

from plankwise.errors import ConfigError
from plankwise.models.loading import Loaded, Loader
from plankwise.models.sentences import PROMPTS, read_beside

KEY, OLD_KEY, FUNCTION = "sentence_transformers", "sbert_ce_default_activation_function", "activation_fn"
SIGMOID, AS_IT_IS = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"


def is_ranker(config: Any) -> bool:
    """Whether a model's config says what becomes of its one logit, as `load_ranker` has it."""
    return bool(getattr(config, KEY, None)) and config.num_labels == 1


def has_one_output(config: Any) -> bool:
    """Whether a model was saved with a head that gives one number."""
    return config.num_labels == 1 and any("ForSequenceClassification" in name for name in config.architectures or ())


def load_ranker(loader: Loader, path: str, *, problem: str, bounded: bool, pad_token_id: int | None) -> Loaded:
    """The model at `path` with a head for one score, whose own loss is that of `problem`.

    Its config says what becomes of a logit: what its files say; of a new head's, nothing if scores are not `bounded` by 0 and 1.

    Raises:
        ConfigError: nothing can be loaded from there.
    """

    def adjust(config: Any) -> None:
        function = find_function(config, path)
        if function is None:
            function = SIGMOID if bounded or has_one_output(config) else AS_IT_IS
        config.num_labels = 1
        config.problem_type = problem
        if config.pad_token_id is None:
            config.pad_token_id = pad_token_id
        setattr(config, KEY, {**(getattr(config, KEY, None) or {}), FUNCTION: function})

    return loader.model(path, AutoModelForSequenceClassification, adjust=adjust, new_head=True)


def find_function(config: Any, path: str) -> str | None:
    """The name of what makes a score of a logit; None if a model's files do not say, which means the sigmoid."""
    own = getattr(config, KEY, None) or {}
    found = own.get(FUNCTION) or getattr(config, OLD_KEY, None) or (read_beside(path, PROMPTS, {}) or {}).get(FUNCTION)
    return None if found is None else str(found)


def scores_of(logits: np.ndarray, config: Any, path: str) -> np.ndarray:
    """What `CrossEncoder` gives for logits (N,).

    Raises:
        ConfigError: the model's files name a function that is not torch's.
    """
    name = find_function(config, path) or SIGMOID
    kind = getattr(nn, name.rpartition(".")[2], None) if name.startswith("torch.nn.") else None
    if kind is None:
        raise ConfigError(
            f"{path} makes its scores of logits by {name!r}, which is not of torch.nn; set {KEY}.{FUNCTION} in its config.json"
        )
    return kind()(torch.from_numpy(np.asarray(logits, dtype=np.float32))).numpy()
