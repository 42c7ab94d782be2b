"""Vocabulary trimming: tokenizer and embedding table shrink together to the tokens that a domain's texts need.

On small encoders the table is half of all weights. What a model gives on those texts does not change, since it sees the same
rows of the table; any other text is still encoded, into smaller pieces where a token is gone.
"""

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from plankwise.errors import ConfigError
from plankwise.models.sentences import SentenceEncoder, prepare
from plankwise.models.trimmed_tokenizer import trim_tokenizer

SIZES = ("vocab_size", "decoder_vocab_size")  # keys of a config
IDS = ("token_id", "token_ids", "suppress_tokens", "bad_words_ids", "forced_decoder_ids")  # how its keys with ids end


@dataclass(frozen=True)
class Trimmed:
    """A model with a smaller vocabulary, its tokenizer, and what that saves."""

    model: Any
    tokenizer: Any
    kept: tuple[int, ...]  # the ids before, in rising order: token `i` was `kept[i]`
    rows_before: int  # of the embedding table
    bytes_before: int  # of all weights, those that are shared counted once

    @property
    def saved_mb(self) -> float:
        return (self.bytes_before - _bytes(self.model)) / 1e6

    def to_json(self) -> dict[str, float]:
        """What a record says of it."""
        return {"tokens_before": self.rows_before, "tokens": len(self.kept), "saved_mb": self.saved_mb}


def trim(model: Any, tokenizer: Any, texts: Sequence[str], *, min_count: int = 1) -> Trimmed:
    """The model and its tokenizer with the tokens that the texts need, special tokens, and what any text needs to be encoded.

    The model is a new one of the same class, in eval mode, and gives on the texts what the old one gives, bit for bit. With a
    `min_count` above 1 rare tokens go too, so that this holds only for texts without those. A sentence encoder keeps the tokens of
    its prompts, too.

    Raises:
        PlankwiseError: the tokenizer or the model cannot be trimmed, or there is no text.
    """
    check_trimmable(model)
    if isinstance(model, SentenceEncoder):
        files = model.files
        prompts = {
            index
            for prompt in prepare([*files.prompts.values()], "", lower=files.lower)
            for index in tokenizer(prompt)["input_ids"]
        }
        small = _trim(
            model.model, tokenizer, [text.lower() for text in texts[:]] if files.lower else texts, min_count, prompts
        )
        return replace(small, model=SentenceEncoder(small.model, files, squared=model.squared).eval())
    return _trim(model, tokenizer, texts, min_count, set())


def _trim(model: Any, tokenizer: Any, texts: Sequence[str], min_count: int, also: set[int]) -> Trimmed:
    rows = _rows(model)
    named = {index for config in _configs(model) for _, ids in _ids_in(config) for index in _flat(ids)}
    found = trim_tokenizer(tokenizer, texts, min_count=min_count, also=named | _fixed(model) | also)
    beyond = sorted(index for index in named if len(tokenizer) <= index < rows)  # rows that only the config knows of
    kept = (*found.kept, *(index for index in beyond if index not in found.kept))
    if kept[-1] >= rows:
        name = tokenizer.convert_ids_to_tokens(kept[-1])
        raise ConfigError(
            f"the tokenizer has the token {name!r} with the id {kept[-1]}, but the model's embedding table has only {rows} rows; "
            "give the tokenizer that the model was trained with"
        )
    return Trimmed(_cut_model(model, kept), found.tokenizer, kept, rows, _bytes(model))


def check_trimmable(model: Any) -> None:
    """Lets a model pass whose class builds it from a config with a `vocab_size`, or a sentence encoder with such a model.

    Raises:
        ConfigError: it cannot be trimmed.
    """
    model = _reader(model)
    if not isinstance(model, PreTrainedModel) or not hasattr(model.config.get_text_config(), "vocab_size"):
        raise ConfigError(
            f"the model is a {type(model).__name__}, whose vocabulary cannot be trimmed; give a Hugging Face model that has a "
            "vocab_size in its config"
        )


@contextmanager
def reading(model: Any, own: Any, other: Any) -> Iterator[None]:
    """While open, a model whose tokenizer is `own` takes ids of the tokenizer `other`, each of whose tokens `own` has."""
    ids, names = own.get_vocab(), other.get_vocab()
    table = torch.zeros(max(names.values()) + 1, dtype=torch.long)
    for token, index in names.items():
        table[index] = ids[token]
    embeddings: nn.Module = _reader(model).get_input_embeddings()
    handle = embeddings.register_forward_pre_hook(lambda module, args: (table.to(args[0].device)[args[0]], *args[1:]))
    try:
        yield
    finally:
        handle.remove()


def _reader(model: Any) -> Any:
    """What reads the tokens: the model, or that of a sentence encoder."""
    return model.model if isinstance(model, SentenceEncoder) else model


def _cut_model(model: Any, kept: Sequence[int]) -> Any:
    """A model of the same class whose config has the new vocabulary, with the rows that are kept."""
    config = _cut_config(model.config, kept)
    with torch.random.fork_rng():
        new = type(model)(config)
    chosen = torch.tensor(kept)
    shapes = {name: value.shape for name, value in new.state_dict().items()}
    state = {name: _select(name, value, shapes.get(name), chosen) for name, value in model.state_dict().items()}
    new.load_state_dict(state)
    new.to(device=model.device, dtype=model.dtype)
    if getattr(model, "generation_config", None) is not None:
        new.generation_config = _cut_config(model.generation_config, kept)
    return new.eval()


def _select(name: str, value: torch.Tensor, shape: torch.Size | None, kept: torch.Tensor) -> torch.Tensor:
    """A weight as the new model has it: the same, or with the kept rows in the one dimension that is the vocabulary."""
    if value.shape == shape:
        return value
    other = (
        [] if shape is None or len(shape) != value.dim() else [d for d, n in enumerate(shape) if n != value.shape[d]]
    )
    if len(other) != 1 or shape is None or shape[other[0]] != len(kept):
        raise ConfigError(
            f"the model's weight {name} {list(value.shape)} does not shrink with the vocabulary as the others do; keep its "
            "vocabulary whole"
        )
    return value.index_select(other[0], kept.to(value.device))


def _cut_config(config: Any, kept: Sequence[int]) -> Any:
    """A copy of a config, or of a generation config, with the new size of the vocabulary and the new ids."""
    new = copy.deepcopy(config)
    places = {index: place for place, index in enumerate(kept)}
    for one in {id(part): part for part in _parts(new)}.values():
        for key, ids in _ids_in(one):
            setattr(one, key, _mapped(ids, places))
        before = getattr(one, "vocab_size", None)
        for key in SIZES:
            if before is not None and getattr(one, key, None) == before:
                setattr(one, key, len(kept))
    return new


def _configs(model: Any) -> Iterator[Any]:
    yield from _parts(model.config)
    if getattr(model, "generation_config", None) is not None:
        yield model.generation_config


def _parts(config: Any) -> list[Any]:
    """A config, and the one inside it that describes what reads text."""
    inner = config.get_text_config() if hasattr(config, "get_text_config") else config
    return [config] if inner is config else [config, inner]


def _ids_in(config: Any) -> Iterator[tuple[str, Any]]:
    """The keys of a config that hold ids of tokens, with what they hold."""
    for key, value in config.to_dict().items():
        if key.endswith(IDS) and value is not None:
            yield key, value


def _flat(ids: Any) -> Iterable[int]:
    if isinstance(ids, list | tuple):
        return (index for one in ids for index in _flat(one))
    return [ids] if isinstance(ids, int) and ids >= 0 else []


def _mapped(ids: Any, places: dict[int, int]) -> Any:
    """New ids for old ones, in the same lists; what is not the id of a token, as -1, stays."""
    if isinstance(ids, list | tuple):
        return type(ids)(_mapped(one, places) for one in ids)
    return places.get(ids, ids) if isinstance(ids, int) and ids >= 0 else ids


def _fixed(model: Any) -> set[int]:
    """Ids that must stay what they are: where the padding's id says at which number positions begin (RoBERTa), all up to it."""
    modules = [one for one in model.modules() if getattr(one, "num_embeddings", None) != _rows(model)]
    found = [one.padding_idx for one in modules if isinstance(getattr(one, "padding_idx", None), int)]
    return set(range(max(found, default=-1) + 1))


def _rows(model: Any) -> int:
    return model.get_input_embeddings().weight.shape[0]


def _bytes(model: Any) -> int:
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())
