"""Scores of translations by sacrebleu: BLEU (Papineni et al. 2002) with its tokenizer 13a, and chrF (Popović 2015); 0 to 100."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from plankwise.errors import MissingExtraError

ORDERS = 4  # the longest n-grams that BLEU counts


def score_translations(written: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """`bleu` and `chrf` over all texts.

    Raises:
        MissingExtraError: sacrebleu is not installed.
    """
    metrics = _sacrebleu()
    bleu = metrics.BLEU(force=True).corpus_score(list(written), [list(references)])  # tokenised texts are not warned of
    return {"bleu": bleu.score, "chrf": metrics.CHRF().corpus_score(list(written), [list(references)]).score}


def score_sentences(written: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """chrF of each text by itself, (N,).

    Raises:
        MissingExtraError: sacrebleu is not installed.
    """
    metric = _sacrebleu().CHRF()
    return np.array([metric.sentence_score(one, [other]).score for one, other in zip(written, references, strict=True)])


def count_ngrams(written: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """Of each text what BLEU sums up, (N, 10): n-grams that are right, n-grams there are, both lengths."""
    metric = _sacrebleu().BLEU(effective_order=True)
    found = [metric.sentence_score(one, [other]) for one, other in zip(written, references, strict=True)]
    return np.array([[*one.counts, *one.totals, one.sys_len, one.ref_len] for one in found], dtype=np.int64)


def bleu_of(sums: np.ndarray) -> float:
    """BLEU of what `count_ngrams` gives, summed over texts."""
    numbers = [int(number) for number in sums]
    counts = (numbers[:ORDERS], numbers[ORDERS : 2 * ORDERS], numbers[-2], numbers[-1])
    return _sacrebleu().BLEU.compute_bleu(*counts, smooth_method="exp").score  # as `score_translations` has it


def _sacrebleu() -> Any:
    try:
        from sacrebleu import metrics
    except ImportError:
        raise MissingExtraError("task.name = 'translation'", "sacrebleu", "translation") from None
    return metrics
