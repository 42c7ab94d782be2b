"""Where two language models err: perplexity by how frequent a token is and by its kind, and the tokens that cost more than before.

A token's frequency is how often it stands in the held-out text; it begins a word if it does so there more often than not.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from plankwise.data.masking import Aim
from plankwise.evaluation.error_view import MOST_CASES, Case, ErrorView, Form, Row, Table, make_row, worst_first
from plankwise.evaluation.errors import count_cells
from plankwise.evaluation.perplexity import TokenLosses, perplexity, wanted_tokens

LEFT, RIGHT = 30, 15  # tokens that are shown beside one
SPECIAL, NUMBER, SIGN, BEGINS, GOES_ON = "special token", "with a digit", "sign", "begins a word", "goes on with a word"
COLUMNS: tuple[tuple[str, Form], ...] = (("perplexity", "number"), ("first guess right", "share"))


class _Places(NamedTuple):
    ids: np.ndarray  # (M,) the predicted tokens
    contexts: dict[int, tuple[int, str]]  # of those asked for: the sequence, and the text around it


def compare_losses(
    sequences: Any,
    batches: Callable[[], Iterable[Any]],
    objective: Aim,
    tokenizer: Any,
    before: TokenLosses,
    after: TokenLosses,
) -> ErrorView:
    """The view of what two models make of the same predicted tokens; `sequences` are those of `data.sequences`."""
    rises = after.losses.astype(np.float64) - before.losses
    rows = worst_first(rises)
    wanted = _find(batches(), objective, tokenizer, rows[:MOST_CASES])
    ids, both = wanted.ids, (before, after)
    frequencies, begins = _count(sequences, max(int(ids.max()) + 1, len(tokenizer)))
    often = np.maximum(frequencies, np.bincount(ids, minlength=len(frequencies)))[ids]
    kinds = _name_kinds(np.unique(ids), begins, tokenizer)
    by_kind = np.array([kinds[token] for token in ids.tolist()])
    return ErrorView(
        kind="text",
        examples=len(ids),
        unit="predicted tokens",
        note="First guess right: the token is the one that the model finds likeliest. Frequency is counted in the held-out text.",
        tables=[
            Table("By frequency of the token", "times in the text", COLUMNS, _by_frequency(often, ids, both), "tokens"),
            Table(
                "By kind of token",
                "token",
                COLUMNS,
                [
                    _row(kind, by_kind == kind, ids, both)
                    for kind in (BEGINS, GOES_ON, NUMBER, SIGN, SPECIAL)
                    if kind in by_kind
                ],
                "tokens",
            ),
        ],
        cells=count_cells(before.guesses == ids, after.guesses == ids),
        cells_of="first guesses",
        cases=[
            Case(
                wanted.contexts[row][0],
                f"{_quote(ids[row], tokenizer)}: loss {before.losses[row]:.2f} → {after.losses[row]:.2f}",
                [("text", wanted.contexts[row][1])],
                *([_tell(some, row, tokenizer)] for some in both),
            )
            for row in rows[:MOST_CASES]
        ],
        cases_title="Tokens whose loss rose most",
        cases_total=len(rows),
    )


def _find(batches: Iterable[Any], objective: Aim, tokenizer: Any, chosen: Sequence[int]) -> _Places:
    """The predicted tokens in their order, and what stands around those `chosen`."""
    asked, found, contexts = set(chosen), [], {}
    count = first = 0
    for batch in batches:
        wanted = wanted_tokens(batch["labels"], objective)
        found.append(wanted.ids)
        for index in asked & set(range(count, count + len(wanted.ids))):
            row, place = wanted.rows[index - count], wanted.places[index - count]
            ids = batch["input_ids"][row][batch["attention_mask"][row] == 1].numpy()  # padding stands at the end
            text = _around(ids, place, wanted.ids[index - count], objective, tokenizer)
            contexts[index] = (first + int(row), text)
        count, first = count + len(wanted.ids), first + len(batch["labels"])
    return _Places(np.concatenate(found), contexts)


def _around(ids: np.ndarray, place: int, token: int, objective: Aim, tokenizer: Any) -> str:
    """The token in brackets, in what the model read: only what stands before it, if it writes from left to right."""
    hidden = [special for special in tokenizer.all_special_ids if special != tokenizer.mask_token_id]
    left, right = ids[max(0, place - LEFT) : place], ids[place + 1 : place + 1 + RIGHT]
    if objective == "clm":
        right = right[:0]
    before, after = (tokenizer.decode(some[~np.isin(some, hidden)].tolist()) for some in (left, right))
    return f"{before} ⟦{tokenizer.decode([int(token)])}⟧ {after}".strip()


def _count(sequences: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    """How often each token stands in the text, and how often it begins a word, (V,) each."""
    counts, begins = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for ids, starts in zip(*(sequences.data[name].chunks for name in ("input_ids", "starts")), strict=True):
        tokens, first = ids.flatten().to_numpy(), starts.flatten().to_numpy(zero_copy_only=False)
        counts += np.bincount(tokens, minlength=size)
        begins += np.bincount(tokens[first], minlength=size)
    return counts, 2 * begins >= counts


def _name_kinds(tokens: np.ndarray, begins: np.ndarray, tokenizer: Any) -> dict[int, str]:
    special, kinds = set(tokenizer.all_special_ids), {}
    for token in tokens.tolist():
        text = tokenizer.decode([token])
        if token in special:
            kinds[token] = SPECIAL
        elif any(letter.isdigit() for letter in text):
            kinds[token] = NUMBER
        elif not any(letter.isalpha() for letter in text):
            kinds[token] = SIGN
        else:
            kinds[token] = BEGINS if begins[token] else GOES_ON
    return kinds


def _by_frequency(often: np.ndarray, ids: np.ndarray, both: Sequence[TokenLosses]) -> list[Row]:
    """All tokens, then the rarest to the commonest, by powers of ten."""
    bands = np.array([len(str(number)) for number in often.tolist()])
    rows = [_row("all", np.ones(len(ids), dtype=bool), ids, both)]
    for digits in np.unique(bands).tolist():
        name = f"{10 ** (digits - 1):,}–{10**digits - 1:,}"
        rows.append(_row(name, bands == digits, ids, both))
    return rows


def _row(name: str, chosen: np.ndarray, ids: np.ndarray, both: Sequence[TokenLosses]) -> Row:
    figures = [
        [
            perplexity(float(some.losses[chosen].mean(dtype=np.float64))),
            float((some.guesses[chosen] == ids[chosen]).mean()),
        ]
        for some in both
    ]
    return make_row(name, figures, int(chosen.sum()))


def _tell(model: TokenLosses, row: int, tokenizer: Any) -> str:
    return f"probability {np.exp(-model.losses[row]):.2%}, first guess {_quote(model.guesses[row], tokenizer)}"


def _quote(token: int, tokenizer: Any) -> str:
    return f"“{tokenizer.decode([int(token)]).strip()}”"
