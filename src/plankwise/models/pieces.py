"""Which tokens a tokenizer cannot do without, by its model, and the model with those alone.

A model is the entry `model` of a tokenizer.json: WordPiece, BPE or Unigram. A text whose tokens are all kept is divided as before:

- WordPiece takes the longest token that fits; the longest that fits before is still there, and a longer one has not come.
- BPE merges the pair of lowest rank; if the merges that lead to the kept tokens stay, each step finds the same pair as before.
- Unigram takes the best path; the best path before is still there, and no other has a better score than it had.

Any other text falls into smaller pieces: single characters, or bytes, are always kept.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from plankwise.errors import ConfigError

Json = dict[str, Any]  # the model's entry
Rule = Callable[[Json, set[str], set[str], set[str]], set[str]]  # model, used, all and added tokens: what stays
Cut = Callable[[Json, Mapping[str, int]], Json]
BYTES = {f"<0x{value:02X}>" for value in range(256)}  # what characters that are not known fall back to


def keep_tokens(model: Json, used: set[str], added: set[str]) -> set[str]:
    """The tokens of the model that must stay so that texts which need the `used` ones are divided as before, and so that no text
    gets an unknown token that had none. `added` are tokens that are found before the model sees a text.

    Raises:
        ConfigError: for this tokenizer nothing can be promised.
    """
    rule, _ = _kind(model)
    vocabulary = set(tokens_of(model))
    return (rule(model, used & vocabulary, vocabulary, added) | added) & vocabulary


def cut_model(model: Json, ids: Mapping[str, int]) -> Json:
    """The model with the tokens of `ids` alone, under those ids."""
    _, cut = _kind(model)
    return {**model, **cut(model, ids)}


def tokens_of(model: Json) -> list[str]:
    """The model's tokens."""
    vocabulary = model["vocab"]
    return [token for token, _ in vocabulary] if isinstance(vocabulary, list) else list(vocabulary)


def _kind(model: Json) -> tuple[Rule, Cut]:
    name = model.get("type")
    if name not in _KINDS:
        raise ConfigError(
            f"the tokenizer is a {name}, whose vocabulary cannot be trimmed; {', '.join(_KINDS)} can: keep this one whole"
        )
    return _KINDS[name]


def _keep_word_pieces(model: Json, used: set[str], vocabulary: set[str], added: set[str]) -> set[str]:
    prefix = model["continuing_subword_prefix"]

    def lacks(token: str) -> bool:
        """Whether a character of the token is no token of its own where it stands."""
        inside = token.startswith(prefix)
        body = token.removeprefix(prefix)
        return any((prefix if inside or at else "") + one not in vocabulary for at, one in enumerate(body))

    single = {token for token in vocabulary if len(token.removeprefix(prefix)) <= 1}
    lacking = {token for token in vocabulary - single - added if lacks(token)}
    kept = used | single | lacking | {model["unk_token"]}
    # At the start of a word such a token is found as before. Inside a word, a shorter token before it could now reach into it.
    _refuse(sorted(token for token in lacking if token.startswith(prefix)), vocabulary - kept - added)
    return kept


def _keep_unigrams(model: Json, used: set[str], vocabulary: set[str], added: set[str]) -> set[str]:
    scores = dict(model["vocab"])
    lowest = min(scores, key=lambda token: scores[token])  # what an unknown character costs is counted from its score
    unknown = set() if model.get("unk_id") is None else {model["vocab"][model["unk_id"]][0]}
    kept = used | {lowest} | unknown | {token for token in vocabulary if len(token) == 1}
    if model.get("byte_fallback"):
        return kept | BYTES
    lacking = {token for token in vocabulary - added if any(one not in vocabulary for one in token)} - unknown
    kept |= lacking
    _refuse(sorted(lacking), vocabulary - kept - added)
    return kept


def _refuse(lacking: list[str], dropped: set[str]) -> None:
    if lacking and dropped:
        raise ConfigError(
            f"the tokenizer has the token {lacking[0]!r}, but not each of its characters as a token of its own, so that a text "
            "could get an unknown token where it had none; keep this vocabulary whole"
        )


def _keep_merged(model: Json, used: set[str], vocabulary: set[str], added: set[str]) -> set[str]:
    if model.get("dropout"):
        raise ConfigError(
            f"the tokenizer divides texts by chance (dropout {model['dropout']}), so that which tokens a text needs is not known; "
            "set its dropout to none"
        )
    prefix, suffix = (model.get(key) or "" for key in ("continuing_subword_prefix", "end_of_word_suffix"))
    kept = used | BYTES | {one for one in vocabulary if len(one.removeprefix(prefix).removesuffix(suffix)) <= 1}
    if model.get("unk_token") is not None:
        kept.add(model["unk_token"])
    if model.get("ignore_merges"):  # a whole word may be a token although its characters are none
        kept |= {token for token in vocabulary if any(one not in vocabulary for one in token)}
    ranks = {pair: rank for rank, pair in enumerate(_merges(model))}
    for token in used:
        kept |= _merge(_symbols(token, prefix, suffix), ranks, prefix)
    return kept


def _symbols(token: str, prefix: str, suffix: str) -> list[str]:
    """What a token is merged from: its characters, marked as a word's inside and end are."""
    first, *rest = list(token.removeprefix(prefix).removesuffix(suffix)) or [""]
    symbols = [prefix + first if token.startswith(prefix) else first, *(prefix + one for one in rest)]
    return [*symbols[:-1], symbols[-1] + suffix] if token.endswith(suffix) else symbols


def _merge(symbols: list[str], ranks: dict[tuple[str, str], int], prefix: str) -> set[str]:
    """The tokens that come to be while the symbols are merged, as BPE does."""
    made: set[str] = set()
    while len(symbols) > 1:
        pairs = list(pairwise(symbols))
        at = min(range(len(pairs)), key=lambda index: ranks.get(pairs[index], len(ranks)))
        if pairs[at] not in ranks:
            break
        symbols[at : at + 2] = [_joined(pairs[at], prefix)]
        made.add(symbols[at])
    return made


def _merges(model: Json) -> list[tuple[str, str]]:
    return [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in model["merges"]]  # type: ignore[misc]


def _joined(pair: tuple[str, str], prefix: str) -> str:
    return pair[0] + pair[1].removeprefix(prefix)


def _cut_words(model: Json, ids: Mapping[str, int]) -> Json:
    return {
        "vocab": {token: ids[token] for token in sorted(ids.keys() & model["vocab"].keys(), key=lambda one: ids[one])}
    }


def _cut_merges(model: Json, ids: Mapping[str, int]) -> Json:
    prefix = model.get("continuing_subword_prefix") or ""
    left = [list(pair) for pair in _merges(model) if {*pair, _joined(pair, prefix)} <= ids.keys()]
    return {**_cut_words(model, ids), "merges": left}


def _cut_unigrams(model: Json, ids: Mapping[str, int]) -> Json:
    left = [entry for entry in model["vocab"] if entry[0] in ids]
    unknown = None if model.get("unk_id") is None else ids[model["vocab"][model["unk_id"]][0]]
    return {"vocab": left, "unk_id": unknown}


_KINDS: dict[str, tuple[Rule, Cut]] = {
    "WordPiece": (_keep_word_pieces, _cut_words),
    "BPE": (_keep_merged, _cut_merges),
    "Unigram": (_keep_unigrams, _cut_unigrams),
}
