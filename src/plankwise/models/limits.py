"""How many tokens a model takes, against the length that texts are cut to."""

from typing import Any

from plankwise.errors import ConfigError


def token_limit(model: Any, tokenizer: Any = None) -> int | None:
    """How many tokens the model takes, with its tokenizer if one is given; None if they do not say."""
    positions = getattr(model.config, "max_position_embeddings", None)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            positions = module.num_embeddings - module.padding_idx - 1  # RoBERTa counts on from the padding's index
    limits = (positions, getattr(tokenizer, "model_max_length", None))
    known = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 10**6]
    return min(known) if known else None


def check_length(max_length: int, model: Any, tokenizer: Any, path: str) -> None:
    """Compares the length that texts are cut to with what the model takes.

    Raises:
        ConfigError: the model takes fewer tokens.
    """
    limit = token_limit(model, tokenizer)
    if limit is not None and max_length > limit:
        raise ConfigError(too_long(max_length, path, limit))


def too_long(max_length: int, path: str, limit: int) -> str:
    """What is said of texts that are cut to more tokens than a model takes."""
    return f"training.max_length is {max_length}, but {path} takes at most {limit} tokens; choose 4 to {limit}"
