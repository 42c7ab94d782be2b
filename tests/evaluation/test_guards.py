import pytest

from plankwise.errors import RunError
from plankwise.evaluation.guards import LABEL_ORDER, MAJORITY, enforce, find_faults, find_swap

LABELS = ("negative", "positive")
DEV = [("fine film", 1), ("great plot", 1), ("dull film", 0), ("weak end", 0), ("awful scene", 0)]
RIGHT = {"fine": [0.0, 1.0], "great": [0.0, 1.0], "dull": [1.0, 0.0], "weak": [1.0, 0.0], "awful": [1.0, 0.0]}
SWAPPED = {word: weights[::-1] for word, weights in RIGHT.items()}


def check_predecessor(*arguments, ignored=()):
    return enforce(find_faults(*arguments), ignored)


def test_a_predecessor_that_has_learnt_the_task_passes(make_scorer, word_model):
    scorer, train = make_scorer(LABELS, DEV)
    check_predecessor(scorer, scorer.outputs(word_model(RIGHT)), train, "model")


def test_swapped_classes_are_refused_with_the_order_to_set(make_scorer, word_model):
    scorer, train = make_scorer(LABELS, DEV)
    with pytest.raises(RunError) as caught:
        check_predecessor(scorer, scorer.outputs(word_model(SWAPPED)), train, "model")
    assert "right in 0.0% of the dev examples, read as positive, negative in 100.0%" in str(caught.value)
    assert "set task.labels = ['positive', 'negative'], or train a new head" in str(caught.value)


def test_the_order_that_the_error_gives_is_the_one_that_passes(make_scorer, word_model):
    scorer, train = make_scorer(LABELS, DEV, order=("positive", "negative"))
    check_predecessor(scorer, scorer.outputs(word_model(SWAPPED)), train, "model")


def test_three_rotated_classes_are_named_in_the_models_order(make_scorer, word_model):
    dev = [("dull", 0), ("film", 1), ("fine", 2)] * 3
    rotated = {"dull": [0.0, 1.0, 0.0], "film": [0.0, 0.0, 1.0], "fine": [1.0, 0.0, 0.0]}
    scorer, _ = make_scorer(("bad", "middling", "good"), dev)
    assert "set task.labels = ['good', 'bad', 'middling']" in find_swap(
        scorer, scorer.outputs(word_model(rotated)), "model"
    )


@pytest.mark.parametrize("order", [None, ("positive", "negative")])
def test_no_better_than_the_majority_is_refused_in_any_order_of_classes(make_scorer, word_model, order):
    scorer, train = make_scorer(LABELS, DEV, order=order)
    negative = (order or LABELS).index("negative")
    always = [float(index == negative) for index in range(2)]
    model = word_model(dict.fromkeys(RIGHT, always))
    with pytest.raises(
        RunError, match=r"scores 0.6000 on dev, no better than .*most frequent class \(0.6000\); .*train it"
    ):
        check_predecessor(scorer, scorer.outputs(model), train, "model")


def test_numbers_are_compared_with_the_mean(make_scorer, word_model):
    dev = [("fine", 5.0), ("film", 3.0), ("dull", 1.0)]
    scorer, train = make_scorer((), dev, metrics=("pearson",))
    check_predecessor(scorer, scorer.outputs(word_model({"fine": [4.0], "film": [2.0], "dull": [0.5]})), train, "model")
    with pytest.raises(RunError, match=r"always answering the mean \(0.0000\)"):
        check_predecessor(scorer, scorer.outputs(word_model({"fine": [0.0], "dull": [1.0]})), train, "model")


def test_a_guard_that_is_ignored_by_name_gives_the_sentence_that_it_would_have_raised(make_scorer, word_model):
    scorer, train = make_scorer(LABELS, DEV)
    outputs = scorer.outputs(word_model({word: [1.0, 0.0] for word in RIGHT}))
    with pytest.raises(RunError, match=r'or go on anyway with evaluation\.ignore_guards=\["majority"\]$') as caught:
        check_predecessor(scorer, outputs, train, "model")
    ignored = check_predecessor(scorer, outputs, train, "model", ignored=[MAJORITY])
    assert list(ignored) == [MAJORITY]
    assert str(caught.value).startswith(ignored[MAJORITY])


def test_ignoring_one_guard_leaves_the_other(make_scorer, word_model):
    scorer, train = make_scorer(LABELS, DEV)
    outputs = scorer.outputs(word_model(SWAPPED))
    with pytest.raises(RunError, match=r"scores 0\.0000 on dev, no better than"):
        check_predecessor(scorer, outputs, train, "model", ignored=[LABEL_ORDER])
    with pytest.raises(RunError, match=r'orders its classes otherwise.*evaluation\.ignore_guards=\["label_order"\]$'):
        check_predecessor(scorer, outputs, train, "model", ignored=[MAJORITY])
    ignored = check_predecessor(scorer, outputs, train, "model", ignored=[MAJORITY, LABEL_ORDER])
    assert list(ignored) == [LABEL_ORDER, MAJORITY]
