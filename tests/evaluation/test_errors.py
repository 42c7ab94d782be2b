import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score, confusion_matrix

from plankwise.evaluation import errors
from plankwise.evaluation.errors import analyse_errors, calibrate, cohen_kappa

NAMES = ["no", "yes", "maybe"]


def logits_of(predicted, confidence=0.8, num_classes=2):
    """Logits whose softmax gives the predicted classes this confidence, and the others the rest alike."""
    confidence = np.broadcast_to(confidence, (len(predicted),))
    shares = np.repeat((1 - confidence)[:, None] / (num_classes - 1), num_classes, axis=1)
    shares[np.arange(len(predicted)), predicted] = confidence
    return np.log(shares)


def analyse(labels, before, after, *, names=("no", "yes"), lengths=None, texts=None, sure=0.8, **options):
    outputs = {
        "predecessor": logits_of(before, num_classes=len(names)),
        "successor": logits_of(after, sure, num_classes=len(names)),
    }
    texts = texts or [(f"text {row}",) for row in range(len(labels))]
    return analyse_errors(np.array(labels), list(names), outputs, lengths or [5] * len(labels), texts, **options)


def test_six_answers_fall_into_the_four_cells():
    found = analyse([0, 0, 0, 1, 1, 1], before=[0, 0, 1, 1, 0, 0], after=[0, 1, 1, 1, 1, 0])
    assert found["examples"] == 6
    assert found["cells"] == {"both_right": 2, "lost": 1, "gained": 1, "both_wrong": 2}
    assert found["agreement"] == 4 / 6
    assert found["confusion"] == {"predecessor": [[2, 1], [2, 1]], "successor": [[1, 2], [1, 2]]}
    assert found["by_class"] == [
        {"label": "no", "count": 3, "predecessor": 2 / 3, "successor": 1 / 3},
        {"label": "yes", "count": 3, "predecessor": 1 / 3, "successor": 2 / 3},
    ]


def test_a_flip_says_what_both_models_gave_and_how_sure_they_were():
    found = analyse(
        [0, 0, 1, 2],
        before=[0, 0, 0, 1],
        after=[0, 1, 1, 0],
        names=NAMES,
        texts=[("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")],
        sure=np.array([0.9, 0.5, 0.7, 0.6]),
    )
    assert found["flips_total"] == 3
    assert [(flip["row"], flip["kind"]) for flip in found["flips"]] == [(2, "gained"), (3, "changed"), (1, "lost")]
    flip = found["flips"][0]
    assert (flip["text"], flip["text_pair"], flip["label"]) == ("e", "f", "yes")
    assert flip["predecessor"] == {"label": "no", "confidence": pytest.approx(0.8)}
    assert flip["successor"] == {"label": "yes", "confidence": pytest.approx(0.7)}


def test_no_more_flips_are_listed_than_wanted_but_all_are_counted(monkeypatch):
    monkeypatch.setattr(errors, "MOST_FLIPS", 2)
    found = analyse([0] * 5, before=[0] * 5, after=[1] * 5)
    assert (len(found["flips"]), found["flips_total"]) == (2, 5)


def test_texts_can_be_kept_out_and_long_ones_are_cut():
    given = [("x" * 5_000,), ("y",)]
    kept, secret = (
        analyse([0, 0], before=[0, 0], after=[1, 1], texts=given, keep_texts=keep)["flips"] for keep in (True, False)
    )
    assert kept[0]["text"] == "x" * errors.MOST_CHARACTERS + "…"
    assert kept[1]["text"] == "y"
    assert [flip["text"] for flip in secret] == ["", ""]


answers = st.lists(st.tuples(*[st.integers(0, 2)] * 3, st.integers(1, 60)), min_size=1, max_size=60)


@settings(deadline=None)
@given(answers)
def test_all_ways_to_count_add_up_to_all_examples(rows):
    labels, before, after, lengths = map(list, zip(*rows, strict=True))
    found = analyse(labels, before, after, names=NAMES, lengths=lengths)
    count = len(labels)
    assert sum(found["cells"].values()) == count
    assert found["cells"]["both_right"] + found["cells"]["lost"] == int(np.sum(np.array(labels) == before))
    for name, predicted in (("predecessor", before), ("successor", after)):
        assert found["confusion"][name] == confusion_matrix(labels, predicted, labels=[0, 1, 2]).tolist()
        assert sum(one["count"] for one in found["calibration"][name]["bins"]) == count
        for split in ("by_class", "by_length"):
            assert sum(one["count"] for one in found[split]) == count
            right = sum(one["count"] * one[name] for one in found[split])
            assert right == pytest.approx(np.trace(found["confusion"][name]))
    kinds = [flip["kind"] for flip in found["flips"]]
    assert kinds.count("lost") == found["cells"]["lost"]
    assert kinds.count("gained") == found["cells"]["gained"]
    assert len(kinds) == round(count * (1 - found["agreement"]))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=60))
def test_kappa_is_that_of_scikit_learn(pairs):
    first, second = np.array(pairs).T
    if len({*first, *second}) == 1:
        assert cohen_kappa(first, second, 3) is None
    else:
        assert cohen_kappa(first, second, 3) == pytest.approx(cohen_kappa_score(first, second))


def test_calibration_of_twenty_answers_in_two_bins():
    confidence = np.array([0.4] * 5 + [0.5] * 5 + [0.9] * 10)
    right = np.array([True] * 5 + [False] * 5 + [True] * 6 + [False] * 4)
    found = calibrate(confidence, right)
    assert [(one["low"], one["high"], one["count"]) for one in found["bins"]] == [(0, 0.5, 10), (0.5, 1, 10)]
    assert [one["accuracy"] for one in found["bins"]] == [0.5, 0.6]
    assert found["ece"] == pytest.approx(0.5 * (0.5 - 0.45) + 0.5 * (0.9 - 0.6))


def test_a_hundred_answers_have_ten_bins_and_being_as_sure_as_right_is_no_error():
    confidence = np.repeat([0.25, 0.5, 0.75, 1.0], 40)
    right = np.concatenate([np.arange(40) < 40 * share for share in (0.25, 0.5, 0.75, 1.0)])
    found = calibrate(confidence, right)
    assert [one["low"] for one in found["bins"]] == pytest.approx([0.2, 0.4, 0.7, 0.9])
    assert found["ece"] == 0


def test_bins_of_length_hold_about_as_many_each_and_one_length_is_never_torn():
    found = analyse([0] * 10, [0] * 10, [0] * 10, lengths=[9, 3, 3, 3, 5, 6, 7, 8, 1, 12])["by_length"]
    bounds = [(one["low"], one["high"], one["count"]) for one in found]
    assert bounds[0] == (1, 3, 4)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(bounds))
    assert bounds[-1][1] == 12
    assert [one["count"] for one in analyse([0] * 4, [0] * 4, [0] * 4, lengths=[7] * 4)["by_length"]] == [4]
