"""Loads a language model: with the head that it has, or a new one tied to its embeddings."""

import inspect
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForPreTraining

from plankwise.errors import ConfigError
from plankwise.models.loading import Loaded, Loader

CLASSES: dict[str, Any] = {
    "mlm": AutoModelForMaskedLM,
    "mlm+nsp": AutoModelForPreTraining,
    "mlm+sop": AutoModelForPreTraining,
    "clm": AutoModelForCausalLM,
}
PAIR = "next_sentence_label"  # 0: the second part follows the first; 1: it does not


def load_language_model(loader: Loader, path: str, objective: str, *, tokenizer: Any) -> Loaded:
    """The model with a head for the objective.

    Raises:
        ConfigError: nothing can be loaded from there, or it cannot learn the objective.
    """
    if objective != "clm" and tokenizer.mask_token_id is None:
        raise ConfigError(
            f"task.objective is {objective!r}, but the tokenizer of {path} has no mask token; use a model that has one, or 'clm'"
        )
    _check_family(loader.config(path), objective, path, loader.remote_code)
    loaded = loader.model(path, CLASSES[objective], new_head=True)
    if objective == "clm":
        _check_causal(loaded.model, path)
    return loaded


def _check_family(config: Any, objective: str, path: str, remote_code: bool) -> None:
    known = CLASSES[objective]._model_mapping
    if type(config) not in known:
        if remote_code:
            return
        raise ConfigError(
            f"task.objective is {objective!r}, but transformers has no such head for a {config.model_type} ({path}); "
            f"use {'mlm' if objective == 'clm' else 'clm'!r}, or another model"
        )
    if "+" in objective and PAIR not in inspect.signature(known[type(config)].forward).parameters:
        raise ConfigError(
            f"task.objective is {objective!r}, but a {config.model_type} ({path}) has no head for pairs of texts, as BERT does; "
            "use 'mlm', or another model"
        )


def _check_causal(model: Any, path: str) -> None:
    """A model that reads both ways would see the token that it is asked for."""
    ids = torch.arange(8, device=model.device).unsqueeze(0) % model.config.get_text_config().vocab_size
    other = ids.clone()
    other[0, -1] = (other[0, -1] + 1) % model.config.get_text_config().vocab_size
    model.eval()
    with torch.inference_mode():
        before, after = (model(input_ids=tokens).logits[0, :-1] for tokens in (ids, other))
    if not torch.allclose(before, after, atol=1e-4):
        raise ConfigError(
            f"task.objective is 'clm', but {path} reads texts both ways, so that it sees what it is to predict; use 'mlm'"
        )
