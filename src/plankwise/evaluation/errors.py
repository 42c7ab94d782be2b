"""Where predecessor and successor are right and wrong on the same examples (thesis §5.6)."""

import numpy as np
from scipy.special import softmax

MODELS = ("predecessor", "successor")
MOST_FLIPS = 500
MOST_CHARACTERS = 2_000  # of a text in the list of flips
CONFIDENCE_BINS = 10
LENGTH_BINS = 5


def analyse_errors(
    labels: np.ndarray,
    names: list[str],
    outputs: dict[str, np.ndarray],
    lengths: list[int],
    texts: list[tuple[str, ...]],
    *,
    keep_texts: bool = True,
) -> dict:
    """What `record.json` says of the errors, but for their classes.

    `labels` (N,) are class indices, `outputs` the logits (N, C) of "predecessor" and "successor", `lengths` counts tokens.
    A flip's `row` is its place among the examples. Kappa is None where both models give everything one and the same class.
    """
    predicted = {name: outputs[name].argmax(axis=1) for name in MODELS}
    confidence = {name: softmax(outputs[name], axis=1).max(axis=1) for name in MODELS}
    right = {name: predicted[name] == labels for name in MODELS}
    before, after = (right[name] for name in MODELS)
    rows = _flipped_rows(predicted, confidence)
    return {
        "examples": len(labels),
        "labels": list(names),
        "cells": count_cells(before, after),
        "agreement": float((predicted["predecessor"] == predicted["successor"]).mean()),
        "kappa": cohen_kappa(predicted["predecessor"], predicted["successor"], len(names)),
        "confusion": {name: count_pairs(labels, predicted[name], len(names)).tolist() for name in MODELS},
        "calibration": {name: calibrate(confidence[name], right[name]) for name in MODELS},
        "by_class": [
            {"label": names[index], **_shares_right(labels == index, right)} for index in np.unique(labels).tolist()
        ],
        "by_length": [
            {"low": low, "high": high, **_shares_right(mask, right)} for low, high, mask in length_bins(lengths)
        ],
        "flips_total": len(rows),
        "flips": [
            {
                "row": row,
                **_show_text(texts[row], keep_texts),
                "label": names[labels[row]],
                "kind": "lost" if before[row] else "gained" if after[row] else "changed",
                **{
                    name: {"label": names[predicted[name][row]], "confidence": float(confidence[name][row])}
                    for name in MODELS
                },
            }
            for row in rows[:MOST_FLIPS]
        ],
    }


def count_cells(before: np.ndarray, after: np.ndarray) -> dict[str, int]:
    """How many examples are right before and after, (N,) each: both, one of the two, none."""
    return {
        "both_right": int((before & after).sum()),
        "lost": int((before & ~after).sum()),
        "gained": int((~before & after).sum()),
        "both_wrong": int((~before & ~after).sum()),
    }


def count_pairs(first: np.ndarray, second: np.ndarray, num_classes: int) -> np.ndarray:
    """How often each pair of classes occurs, (C, C): rows by the first, columns by the second."""
    counts = np.zeros((num_classes, num_classes), dtype=int)
    np.add.at(counts, (first, second), 1)
    return counts


def cohen_kappa(first: np.ndarray, second: np.ndarray, num_classes: int) -> float | None:
    """Agreement beyond what the two shares of classes give by chance; None if those leave no room for any other."""
    shares = count_pairs(first, second, num_classes) / len(first)
    by_chance = float(shares.sum(axis=1) @ shares.sum(axis=0))
    return None if np.isclose(by_chance, 1) else (float(np.trace(shares)) - by_chance) / (1 - by_chance)


def calibrate(confidence: np.ndarray, right: np.ndarray) -> dict:
    """Expected calibration error over bins of equal width, and those bins that hold examples.

    There are ten bins, or fewer so that there is one for ten examples; a bin holds its upper bound.
    """
    num_bins = min(CONFIDENCE_BINS, max(1, len(confidence) // 10))
    edges = np.linspace(0, 1, num_bins + 1)
    places = np.searchsorted(edges[1:-1], confidence, side="left")
    bins = []
    for index in np.unique(places).tolist():
        inside = places == index
        bins.append(
            {
                "low": float(edges[index]),
                "high": float(edges[index + 1]),
                "count": int(inside.sum()),
                "confidence": float(confidence[inside].mean()),
                "accuracy": float(right[inside].mean()),
            }
        )
    gaps = sum(found["count"] * abs(found["confidence"] - found["accuracy"]) for found in bins)
    return {"ece": gaps / len(confidence), "bins": bins}


def _shares_right(mask: np.ndarray, right: dict[str, np.ndarray]) -> dict:
    return {"count": int(mask.sum()), **{name: float(right[name][mask].mean()) for name in MODELS}}


def length_bins(lengths: list[int]) -> list[tuple[int, int, np.ndarray]]:
    """Shortest and longest of each bin and which examples it holds; examples of one length are in one bin."""
    values = np.asarray(lengths)
    shares = np.arange(1, LENGTH_BINS + 1) / LENGTH_BINS
    places = np.searchsorted(np.unique(np.quantile(values, shares, method="higher")), values, side="left")
    masks = [places == index for index in np.unique(places)]
    return [(int(values[mask].min()), int(values[mask].max()), mask) for mask in masks]


def _flipped_rows(predicted: dict[str, np.ndarray], confidence: dict[str, np.ndarray]) -> list[int]:
    """Where the two give different classes, those first of which the successor is surest."""
    rows = np.flatnonzero(predicted["predecessor"] != predicted["successor"])
    return rows[np.argsort(-confidence["successor"][rows], kind="stable")].tolist()


def _show_text(texts: tuple[str, ...], keep: bool) -> dict[str, str]:
    return {
        name: "" if not keep else text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
        for name, text in zip(("text", "text_pair"), texts, strict=False)
    }
