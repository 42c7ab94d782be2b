"""Texts for models that read with one chain and write with another, and what such models write."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset

from plankwise.data.batch import sorted_batches
from plankwise.data.encode import TextPairs
from plankwise.errors import ConfigError
from plankwise.runtimes import Predictor


@dataclass(frozen=True)
class Ends:
    """What a model's config says of how it begins to write."""

    start: int
    pad: int


def find_ends(config: Any, path: str) -> Ends:
    """Reads it off the config of a model at `path`.

    Raises:
        ConfigError: it is not a model of an encoder and a decoder.
    """
    start = getattr(config, "decoder_start_token_id", None)
    if not getattr(config, "is_encoder_decoder", False) or start is None or config.pad_token_id is None:
        raise ConfigError(
            f"{path} is a {config.model_type}, which does not read with an encoder and write with a decoder; give a model that "
            "does, of Marian's or BART's shape, whose config has decoder_start_token_id and pad_token_id"
        )
    return Ends(start, config.pad_token_id)


def encode_pairs(
    sources: Sequence[str], targets: Sequence[str], tokenizer: Any, max_length: int, ends: Ends
) -> TextPairs:
    """Texts and what is to be written for them as token ids, each at most `max_length` of them.

    What the decoder reads, `decoder_input_ids`, are the labels behind the token that it starts from.
    """
    read = tokenizer(list(sources), truncation=True, max_length=max_length)["input_ids"]
    labels = tokenizer(text_target=list(targets), truncation=True, max_length=max_length)["input_ids"]
    whole = [
        [len(row) for row in some]
        for some in (
            tokenizer(list(sources), verbose=False)["input_ids"],
            tokenizer(text_target=list(targets), verbose=False)["input_ids"],
        )
    ]
    num_cut = sum(max(lengths) > max_length for lengths in zip(*whole, strict=True))
    shifted = [[ends.start, *row[:-1]] for row in labels]
    dataset = Dataset.from_dict({"input_ids": read, "decoder_input_ids": shifted, "labels": labels})
    lengths = np.array([len(one) + len(other) for one, other in zip(read, labels, strict=True)])
    return TextPairs(dataset, lengths, num_cut, pad=ends.pad)


def write_texts(
    predictor: Predictor, texts: TextPairs, tokenizer: Any, batch_size: int, *, max_length: int, beams: int
) -> list[str]:
    """What a model writes for each text, batch by batch, without special tokens.

    Raises:
        ConfigError: another runtime than torch has the model.
    """
    import torch

    model: Any = predictor.module
    if model is None:
        raise ConfigError(
            "evaluation.runtime runs an exported model, which cannot write texts here; choose 'torch', with a checkpoint"
        )
    model.eval()
    found = [""] * len(texts.lengths)
    for rows, batch in sorted_batches(texts, tokenizer, batch_size):
        inputs = {name: batch[name].to(predictor.device) for name in ("input_ids", "attention_mask")}
        with torch.inference_mode():
            ids = model.generate(**inputs, max_new_tokens=max_length, num_beams=beams, do_sample=False)
        for row, text in zip(rows.tolist(), tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True):
            found[row] = text.strip()
    return found
