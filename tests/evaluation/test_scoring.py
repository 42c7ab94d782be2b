import numpy as np
import pytest

from plankwise.data.encode import encode
from plankwise.evaluation.held_back import HALVES, first_half
from plankwise.evaluation.scoring import Scorer

LABELS = ("negative", "positive")
DEV = [("fine film", 1), ("great plot", 1), ("dull film", 0), ("weak end", 1)]
WEIGHTS = {"fine": [0.0, 1.0], "great": [0.0, 1.0], "dull": [1.0, 0.0], "weak": [1.0, 0.0]}


def test_the_score_is_the_mean_of_the_metrics_that_count(make_scorer, word_model):
    scorer, _ = make_scorer(LABELS, DEV, metrics=("accuracy", "f1"))
    found = scorer.score(scorer.outputs(word_model(WEIGHTS)))
    assert found["accuracy"] == 0.75
    assert found["f1"] == pytest.approx(0.8)  # 2 of 2 precise, 2 of 3 found
    assert found["score"] == pytest.approx((0.75 + 0.8) / 2)


def test_metrics_follow_the_tasks_own_order_of_classes(make_scorer, word_model):
    scorer, _ = make_scorer(LABELS, DEV, metrics=("accuracy", "f1"), order=("positive", "negative"))
    turned = word_model({word: weights[::-1] for word, weights in WEIGHTS.items()})
    plain, _ = make_scorer(LABELS, DEV, metrics=("accuracy", "f1"))
    assert scorer.score(scorer.outputs(turned)) == plain.score(plain.outputs(word_model(WEIGHTS)))


def test_outputs_come_in_the_models_order_of_classes_and_labels_in_the_tasks(make_scorer, word_model):
    scorer, _ = make_scorer(LABELS, DEV, order=("positive", "negative"))
    outputs = scorer.outputs(word_model({word: weights[::-1] for word, weights in WEIGHTS.items()}))
    assert outputs["dev"].argmax(1).tolist() == [0, 0, 1, 1]
    assert scorer.labels()["dev"].tolist() == [1, 1, 0, 1]


def test_several_dev_sets_are_averaged_and_named(make_scorer, word_model, tokenizer):
    one, train = make_scorer(LABELS, DEV)
    tables = {"matched": train, "mismatched": train.slice(0, 2)}
    scorer = Scorer(one.source, {n: encode(t, tokenizer, 16) for n, t in tables.items()}, tokenizer, 2)
    found = scorer.score(scorer.outputs(word_model(WEIGHTS)))
    assert found == {"matched_accuracy": 0.75, "mismatched_accuracy": 1.0, "score": np.mean([0.75, 1.0])}


def test_the_halves_score_what_they_score_alone(make_scorer, word_model):
    scorer, _ = make_scorer(LABELS, DEV * 5)
    halves = scorer.score_halves(scorer.outputs(word_model(WEIGHTS)))
    right, half = np.array([True, True, True, False] * 5), first_half(20)
    assert halves == {HALVES[0]: right[half].mean(), HALVES[1]: right[~half].mean()}


def test_several_dev_sets_are_each_divided_and_one_example_cannot_be(make_scorer, word_model, tokenizer):
    one, train = make_scorer(LABELS, DEV)
    outputs = one.outputs(word_model(WEIGHTS))["dev"]
    encoded = {name: encode(train.slice(0, count), tokenizer, 16) for name, count in {"a": 4, "b": 4, "c": 1}.items()}
    both = Scorer(one.source, {name: encoded[name] for name in "ab"}, tokenizer, 2)
    assert both.score_halves({"a": outputs, "b": outputs}) == one.score_halves({"dev": outputs})
    assert Scorer(one.source, {"c": encoded["c"]}, tokenizer, 2).score_halves({"c": outputs[:1]}) == {}
