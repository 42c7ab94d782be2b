"""Loads a masked language model with its tokenizer, to be asked for words: only with a head that was trained."""

from typing import Any

from transformers import AutoModelForMaskedLM

from plankwise.errors import ConfigError
from plankwise.models.loading import Loader

KEY = "method.augmentation.model"


def load_masked(loader: Loader, given: str | None, predecessor: str) -> tuple[Any, Any]:
    """The model that was given, or the predecessor's own if it has such a head, and its tokenizer.

    Raises:
        ConfigError: there is no masked language model, or its tokenizer does not say where words are.
    """
    path = predecessor if given is None else given
    try:
        tokenizer = loader.tokenizer(path)
        model = loader.model(path, AutoModelForMaskedLM).model
    except ConfigError as error:
        if given is not None:
            raise ConfigError(
                f"{KEY} is {given}, which is no masked language model with a trained head ({error})"
            ) from None
        raise ConfigError(
            f"method.augmentation.copies is above 0, which needs a masked language model, and the predecessor {path} has no "
            f"trained head for that; set {KEY} to the folder of a model that has one, or the copies to 0"
        ) from None
    if tokenizer.mask_token_id is None or not tokenizer.is_fast:
        lack = "has no mask token" if tokenizer.mask_token_id is None else "does not say where its tokens are in a text"
        raise ConfigError(f"words are to be replaced by the model {path}, whose tokenizer {lack}; set {KEY} to another")
    return model, tokenizer
