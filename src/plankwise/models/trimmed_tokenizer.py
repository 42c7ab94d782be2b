"""A tokenizer with only the tokens that a domain's texts need, and what any other text needs to be encoded at all.

The tokenizer is written, its tokenizer.json is cut (see `pieces`), and it is read back as any user would read it. Then both
encode every text.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from plankwise.errors import ConfigError, DataError, RunError
from plankwise.models.pieces import cut_model, keep_tokens
from plankwise.models.quiet import quiet

FILE, SETTINGS = "tokenizer.json", "tokenizer_config.json"
ADDED = "added_tokens_decoder"  # where SETTINGS may have ids
CHUNK = 1_000  # texts encoded at once


@dataclass(frozen=True)
class TrimmedTokenizer:
    """A tokenizer of its own, and which of the ids before its tokens had: token `i` was `kept[i]`."""

    tokenizer: Any
    kept: tuple[int, ...]  # in rising order


def trim_tokenizer(
    tokenizer: Any, texts: Sequence[str], *, min_count: int = 1, also: Collection[int] = ()
) -> TrimmedTokenizer:
    """Keeps the tokens that occur `min_count` times or more in the texts, all special and added tokens, the ids in `also`, and what
    any text needs to be encoded: without an unknown token where it had none.

    A text whose tokens are all kept is encoded as before, under the new ids.

    Raises:
        ConfigError: not a tokenizer of the `tokenizers` library, or one of a kind that cannot be trimmed.
        DataError: there is no text.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError(
            f"the tokenizer is a {type(tokenizer).__name__} written in Python, whose vocabulary cannot be trimmed; give a fast "
            f"tokenizer, one that has a {FILE}"
        )
    if min_count < 1:
        raise ConfigError(f"min_count is {min_count}; give 1 or more, as often as a token has to occur to be kept")
    data = json.loads(tokenizer.backend_tokenizer.to_str())
    counts = _count(_plain(tokenizer), texts)
    if not counts:
        raise DataError("there is no text to see which tokens are needed; give at least one that is not empty")
    names = {index: token for token, index in tokenizer.get_vocab().items()}
    used = {names[index] for index, count in counts.items() if count >= min_count}
    used |= {names[index] for index in also if index in names}
    added = {entry["content"] for entry in data["added_tokens"]} | set(tokenizer.all_special_tokens)
    model = keep_tokens(data["model"], used, added)
    kept = sorted(index for index, token in names.items() if token in model or token in added)
    ids = {names[index]: new for new, index in enumerate(kept)}
    trimmed = _read_back(tokenizer, _cut(data, ids), ids)
    _check(tokenizer, trimmed, texts, kept)
    return TrimmedTokenizer(trimmed, tuple(kept))


def _plain(tokenizer: Any) -> Any:
    """A copy of what encodes, which neither cuts nor pads."""
    backend = tokenizer.backend_tokenizer
    copy = Tokenizer.from_str(backend.to_str())
    copy.no_truncation()
    copy.no_padding()
    copy.encode_special_tokens = backend.encode_special_tokens
    return copy


def _encode(backend: Any, texts: Sequence[str]) -> Iterator[list[int]]:
    for start in range(0, len(texts), CHUNK):
        chunk = list(texts[start : start + CHUNK])
        yield from (item.ids for item in backend.encode_batch_fast(chunk, add_special_tokens=False))


def _count(backend: Any, texts: Sequence[str]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for ids in _encode(backend, texts):
        counts.update(ids)
    return counts


def _cut(data: dict, ids: dict[str, int]) -> dict:
    """A tokenizer.json with the tokens of `ids` alone; every id that it names is a new one."""
    padding, processor = data["padding"], data["post_processor"]
    return {
        **data,
        "model": cut_model(data["model"], ids),
        "added_tokens": [{**entry, "id": ids[entry["content"]]} for entry in data["added_tokens"]],
        "padding": padding and {**padding, "pad_id": ids.get(padding["pad_token"], padding["pad_id"])},
        "post_processor": processor and _renumbered(processor, ids),
    }


def _renumbered(processor: dict, ids: dict[str, int]) -> dict:
    """A post-processor with new ids: a template's special tokens, or `sep` and `cls` as BERT's and RoBERTa's have them."""
    new = dict(processor)
    if "processors" in new:  # a sequence of them
        new["processors"] = [_renumbered(one, ids) for one in new["processors"]]
    if "special_tokens" in new:
        new["special_tokens"] = {
            name: {**entry, "ids": [ids[token] for token in entry["tokens"]]}
            for name, entry in new["special_tokens"].items()
        }
    for key in ("sep", "cls"):
        if key in new:
            new[key] = [new[key][0], ids[new[key][0]]]
    return new


def _read_back(tokenizer: Any, data: dict, ids: dict[str, int]) -> Any:
    """The tokenizer of the same class that a folder with this tokenizer.json gives."""
    with quiet(), tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        settings = json.loads((Path(folder) / SETTINGS).read_text("utf-8"))
        if ADDED in settings:
            settings[ADDED] = {ids[entry["content"]]: entry for entry in settings[ADDED].values()}
            (Path(folder) / SETTINGS).write_text(json.dumps(settings), "utf-8")
        (Path(folder) / FILE).write_text(json.dumps(data, ensure_ascii=False), "utf-8")
        trimmed = type(tokenizer).from_pretrained(folder)
    trimmed.name_or_path = tokenizer.name_or_path
    trimmed.init_kwargs["name_or_path"] = tokenizer.init_kwargs.get("name_or_path", tokenizer.name_or_path)
    return trimmed


def _check(tokenizer: Any, trimmed: Any, texts: Sequence[str], kept: list[int]) -> None:
    """Encodes every text by both tokenizers.

    Raises:
        RunError: they differ where they must not; no tokenizer is known for which they do.
    """
    new = {index: place for place, index in enumerate(kept)}
    vocabulary = {token: new[index] for token, index in tokenizer.get_vocab().items() if index in new}
    if trimmed.get_vocab() != vocabulary:
        raise RunError(
            f"a trimmed {type(tokenizer).__name__} reads its tokens under other ids than were written; keep this vocabulary whole"
        )
    both = zip(texts, _encode(_plain(tokenizer), texts), _encode(_plain(trimmed), texts), strict=True)
    for text, before, after in both:
        if all(index in new for index in before) and after != [new[index] for index in before]:
            raise RunError(
                f"a trimmed {type(tokenizer).__name__} encodes {text[:60]!r} otherwise than before, although its tokens are all "
                "kept; keep this vocabulary whole"
            )
