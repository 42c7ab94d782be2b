"""Windows: a question with a piece of its text, as many as the text needs; each shares some tokens with the one before."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset

from plankwise.data.batch import sorted_batches
from plankwise.data.encode import Encoded
from plankwise.data.squad import Question
from plankwise.errors import ConfigError
from plankwise.evaluation.spans import best_spans
from plankwise.runtimes import Predictor

OUTSIDE = -1  # the place of a token that is not of the text
MILLIONTHS = 1_000_000
LOWEST = -(10**15)  # the score where there is no span


@dataclass(frozen=True)
class Windows:
    """Questions as windows; `labels` has the first and last token of the answer, or the first token's place twice.

    What a window does not hold whole is no answer of it.
    """

    encoded: Encoded  # whose `num_cut` counts questions that lost their end
    questions: np.ndarray  # (W,), the question that a window is of
    places: list[np.ndarray]  # of each window (T, 2): the characters of each token; OUTSIDE where it is not of the text
    firsts: np.ndarray  # (W,), the token that stands for no answer
    count: int  # of the questions

    def heads(self) -> np.ndarray:
        """The first window of each question."""
        return np.searchsorted(self.questions, np.arange(self.count))


def find_stride(stride: int | None, tokenizer: Any, max_length: int) -> int:
    """How many tokens windows share, if a question may take half of the length.

    Raises:
        ConfigError: a window would have no room for anything new.
    """
    room = max_length - max_length // 2 - tokenizer.num_special_tokens_to_add(pair=True)
    found = max_length // 4 if stride is None else stride
    if found >= room and stride is not None:
        raise ConfigError(
            f"task.stride is {stride}, but beside a question windows of training.max_length = {max_length} tokens have room for "
            f"{max(room, 0)}; choose a smaller stride, or a longer max_length"
        )
    if found >= room:
        raise ConfigError(
            f"training.max_length is {max_length}, which is too short for a question and a piece of its text; give 16 or more"
        )
    return found


def encode_windows(questions: Sequence[Question], tokenizer: Any, max_length: int, stride: int) -> Windows:
    """The windows of all questions, in their order.

    Raises:
        ConfigError: the tokenizer does not say where its pieces stand.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError(
            f"{type(tokenizer).__name__} does not say where in a text its pieces stand; use a model that has a tokenizer.json"
        )
    asked = [_shorten(one.question, tokenizer, max_length // 2) for one in questions]
    tokens = tokenizer(
        asked,
        [one.context for one in questions],
        truncation="only_second",
        max_length=max_length,
        stride=stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    owners = np.array(tokens["overflow_to_sample_mapping"], dtype=np.int64)
    places, firsts, labels = [], [], []
    for window, owner in enumerate(owners):
        of_text = np.array([part == 1 for part in tokens.sequence_ids(window)])
        place = np.where(of_text[:, None], np.array(tokens["offset_mapping"][window]), OUTSIDE)
        ids = tokens["input_ids"][window]
        first = ids.index(tokenizer.cls_token_id) if tokenizer.cls_token_id in ids else 0
        places.append(place)
        firsts.append(first)
        labels.append(_find_answer(questions[owner], place, first))
    columns = {name: tokens[name] for name in ("input_ids", "token_type_ids") if name in tokens}
    lengths = np.array([len(ids) for ids in tokens["input_ids"]])
    num_cut = sum(one.question != some for one, some in zip(questions, asked, strict=True))
    encoded = Encoded(Dataset.from_dict({**columns, "labels": labels}), lengths, num_cut)
    return Windows(encoded, owners, places, np.array(firsts), len(questions))


def _shorten(question: str, tokenizer: Any, most: int) -> str:
    """The question, without the words at its end that are beyond `most` tokens."""
    while True:
        found = tokenizer(question, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        if len(found["input_ids"]) <= most:
            return question
        end = found["offset_mapping"][most][0]
        question = question[:end].rsplit(None, 1)[0] if len(question[:end].split()) > 1 else question[: max(end - 1, 1)]


def _find_answer(question: Question, place: np.ndarray, first: int) -> list[int]:
    """The first and last token of the first answer; if the window does not hold it, `first` twice."""
    if not question.answers:
        return [first, first]
    start = question.starts[0]
    end = start + len(question.answers[0])
    begins, ends = place.T
    inside = np.flatnonzero((begins != OUTSIDE) & (ends > start) & (begins < end))
    if not len(inside) or begins[inside[0]] > start or ends[inside[-1]] < end:
        return [first, first]
    return [int(inside[0]), int(inside[-1])]


def find_spans(predictor: Predictor, windows: Windows, tokenizer: Any, batch_size: int, longest: int) -> np.ndarray:
    """Of each window the best span's first and last character (exclusive), its score, and that of no answer, (W, 4).

    Scores are in millionths, so that all are whole numbers.
    """
    found = np.zeros((len(windows.places), 4), dtype=np.int64)
    for rows, batch in sorted_batches(windows.encoded, tokenizer, batch_size):
        outputs = predictor(batch)
        logits = [outputs[name].float().cpu().numpy() for name in ("start_logits", "end_logits")]
        lengths, width = windows.encoded.lengths[rows], logits[0].shape[1]
        # Where padding stands on the left, the window's own tokens are the last ones.
        shifts = width - lengths if tokenizer.padding_side == "left" else np.zeros_like(lengths)
        allowed = np.zeros(logits[0].shape, dtype=bool)
        for line, (row, shift, length) in enumerate(zip(rows, shifts, lengths, strict=True)):
            begins, ends = windows.places[row].T
            allowed[line, shift : shift + length] = (begins != OUTSIDE) & (ends > begins)
        spans = best_spans(logits[0], logits[1], allowed, longest)
        for line, (row, shift) in enumerate(zip(rows, shifts, strict=True)):
            nothing = sum(float(one[line, shift + windows.firsts[row]]) for one in logits)
            start, end, score = spans[line]
            if np.isfinite(score):
                place = windows.places[row]
                characters = (place[int(start - shift), 0], place[int(end - shift), 1])
                found[row] = (*characters, round(score * MILLIONTHS), round(nothing * MILLIONTHS))
            else:
                found[row] = (0, 0, LOWEST, round(nothing * MILLIONTHS))
    return found


def as_windows(spans: np.ndarray, own: Windows, other: Windows) -> np.ndarray:
    """What was found in windows of a tokenizer (V, 4), for other windows of the same questions, (W, 4).

    Each window says the best of all windows of its question, so that the same answers are chosen, and outputs of models with
    different tokens have the same rows.
    """
    heads = [*own.heads(), len(spans)]
    found = np.zeros((own.count, spans.shape[1]), dtype=spans.dtype)
    for row, (start, end) in enumerate(itertools.pairwise(heads)):
        some = spans[start:end]
        found[row] = (*some[some[:, 2].argmax(), :3], some[:, 3].min())
    return found[other.questions]


def choose_answers(
    spans: np.ndarray, windows: Windows, questions: Sequence[Question], *, may_be_none: bool
) -> tuple[list[str], np.ndarray]:
    """Each question's answer, the best over its windows, and its score, (N,).

    With `may_be_none` it is nothing where the lowest score of no answer over the windows is above the best span's.
    """
    answers, scores = [], np.zeros(len(questions))
    heads = [*windows.heads(), len(spans)]
    for row, question in enumerate(questions):
        own = spans[heads[row] : heads[row + 1]]
        start, end, score, _ = own[own[:, 2].argmax()]
        nothing = own[:, 3].min()
        is_none = score == LOWEST or (may_be_none and nothing > score)
        answers.append("" if is_none else question.context[start:end])
        scores[row] = (nothing if is_none else score) / MILLIONTHS
    return answers, scores
