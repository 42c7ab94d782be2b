import tomllib

import numpy as np
import pytest

from plankwise.analysis_options import RuleOptions
from plankwise.config import validate_config
from plankwise.errors import ConfigError
from plankwise.evaluation.rules import apply_rules, compare_classes, describe, newcombe, wilson


def members(texts, train=(), **rule):
    return next(iter(apply_rules([RuleOptions.model_validate(rule)], texts, train).values())).tolist()


@pytest.mark.parametrize(
    ("rule", "inside", "outside"),
    [
        ({"kind": "regex", "pattern": r"\bnot\b"}, "this is not it", "a knot"),
        ({"kind": "regex", "pattern": "!", "above": 2}, "no!!!", "no!!"),
        ({"kind": "length", "above": 3}, "one two three four", "one two three"),
        ({"kind": "length", "below": 2}, "one", "one two"),
        ({"kind": "length", "above": 1, "below": 3}, "one two", "one two three"),
        ({"kind": "capitals"}, "NO WAY, so", "NO Way out"),
        ({"kind": "capitals", "above": 0.25}, "ABcde", "Abcd"),
        ({"kind": "capitals", "below": 0.1}, "1234 !", "A"),
        ({"kind": "emoji"}, "fine \U0001f600", "fine :-) 3 # ©"),
        ({"kind": "emoji"}, "\U0001f1e9\U0001f1ea", "DE"),
        ({"kind": "emoji"}, "sun \u2600\ufe0f", "10 \u2192 11"),
        ({"kind": "emoji", "above": 1}, "\U0001f44d\U0001f3fd\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467"),
        ({"kind": "mentions"}, "@you", "me@you.de"),
        ({"kind": "mentions", "above": 4}, "@a @b #c #d @ä", "@a @b #c #d # @"),
    ],
)
def test_a_rule_takes_what_it_names_and_leaves_the_rest(rule, inside, outside):
    assert members([inside, outside], **rule) == [True, False]


def test_rare_words_are_those_that_train_hardly_has():
    train = ["The film was fine", "the plot, the film", "Fine"]
    texts = ["THE film", "the plot", "the grumpfish", "", "fine film, fine film plot"]
    assert members(texts, train, kind="rare_words") == [False, True, True, False, False]
    assert members(texts, train, kind="rare_words", seen=0) == [False, False, True, False, False]
    assert members(texts, train, kind="rare_words", above=0, seen=1) == [False, True, True, False, True]


def test_the_usual_rules_are_in_every_config_and_come_back_from_toml():
    config = validate_config({})
    written = tomllib.loads(config.to_toml())
    assert [rule["name"] for rule in written["analysis"]["rules"]] == [rule.name for rule in config.analysis.rules]
    assert {rule.kind for rule in config.analysis.rules} >= {"length", "capitals", "emoji", "mentions", "rare_words"}
    assert validate_config(written) == config


def test_rules_of_ones_own_take_the_place_of_the_usual_ones_and_come_back_from_toml():
    rules = [{"kind": "regex", "name": "negation", "pattern": r"\b(not|n't)\b"}, {"kind": "length", "below": 4}]
    config = validate_config({"analysis": {"rules": rules, "margin": 0.05}})
    assert [rule.name for rule in config.analysis.rules] == ["negation", "length"]
    assert validate_config(tomllib.loads(config.to_toml())) == config


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        (
            [{"kind": "emoji"}, {"kind": "regex", "pattern": "(a"}],
            "analysis.rules.1.pattern: '(a' is not a regular expr",
        ),
        ([{"kind": "regex", "pattern": "(a"}], "(missing ), unterminated subpattern at position 0); fix it"),
        ([{"kind": "regex"}], "analysis.rules.0: kind is 'regex', which needs a pattern"),
        ([{"kind": "emoji", "pattern": "a"}], "pattern is 'a', but kind is 'emoji'; only kind = 'regex' takes it"),
        ([{"kind": "length", "above": 1, "seen": 2}], "seen is 2, but kind is 'length'; only kind = 'rare_words'"),
        ([{"kind": "length"}], "kind is 'length', which needs a bound; give above or below, in words"),
        ([{"kind": "length", "above": 5, "below": 5}], "above is 5.0 and below 5.0; no text can be in between"),
        ([{"kind": "capitals", "above": 30}], "above is 30.0, but capitals are measured as a share; give less than 1"),
        ([{"kind": "emoji", "abov": 3}], "analysis.rules.0.abov: there is no such key. Did you mean 'above'?"),
        ([{"kind": "emojis"}], "analysis.rules.0.kind is 'emojis'; give 'regex', 'length', 'capitals', 'emoji'"),
        ([{"kind": "emoji"}, {"kind": "emoji"}], "several rules are called 'emoji'; give each a name of its own"),
        (["emoji"], "analysis.rules.0 is 'emoji'; give a section with keys of its own"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_with_what_is_wrong(rules, sentence):
    with pytest.raises(ConfigError) as caught:
        validate_config({"analysis": {"rules": rules}})
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"kind": "regex", "pattern": "a{2}"}, "more than 0 matches of a{2}"),
        ({"kind": "length", "above": 3, "below": 9}, "more than 3 and less than 9 words"),
        ({"kind": "rare_words"}, "more than 0.2 of the words at most 1 times in train"),
    ],
)
def test_a_rule_is_described_in_words(rule, words):
    assert describe(RuleOptions.model_validate(rule)) == words


def test_errors_without_overlap_have_the_interval_of_newcombes_paper():
    # Newcombe 1998, Statistics in Medicine 17:873, table II, example (a), method 10
    found = newcombe(wilson(48, 80), wilson(56, 70), shared=0, shared_count=0)
    assert found["share"] == pytest.approx(0.2)
    assert (round(found["low"], 4), round(found["high"], 4)) == (0.0524, 0.3339)


def test_errors_that_both_models_make_narrow_the_interval_of_the_difference():
    apart, together = (newcombe(wilson(20, 100), wilson(22, 100), *shared) for shared in ((0, 0), (90, 18)))
    assert apart["low"] < together["low"] < together["share"] < together["high"] < apart["high"]


def test_false_positives_and_false_negatives_are_counted_apart_with_class_one_positive():
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    wrong = {
        "predecessor": np.array([1, 1, 0, 0, 1, 1, 1, 0], dtype=bool),
        "successor": np.array([1, 0, 1, 1, 0, 0, 1, 1], dtype=bool),
    }
    shout = np.array([1, 0, 0, 1, 0, 1, 1, 0], dtype=bool)
    rows = compare_classes({"shout": shout}, wrong, labels, binary=True, margin=0.03)
    assert [row["side"] for row in rows] == ["false positives", "false negatives"]
    counts = [[(row[when]["count"], row[when]["of"]) for when in ("before", "after")] for row in rows]
    assert counts == [[(1, 2), (2, 3)], [(2, 3), (1, 2)]]
    assert rows[0]["difference"]["share"] == pytest.approx(2 / 3 - 1 / 2)
    assert [row["stable"] for row in rows] == [None, None]
    (one,) = compare_classes({"shout": shout}, wrong, labels, binary=False, margin=0.03)
    assert (one["side"], one["before"]["count"], one["before"]["of"], one["after"]["of"]) == ("errors", 3, 5, 5)


def test_a_side_without_errors_has_no_rows():
    labels, none = np.array([0, 1]), np.zeros(2, dtype=bool)
    wrong = {"predecessor": np.array([True, True]), "successor": np.array([False, True])}
    rows = compare_classes({"any": none}, wrong, labels, binary=True, margin=0.03)
    assert [row["side"] for row in rows] == ["false negatives"]


def stable(before, after, count, shared=True):
    """Whether a class that has these shares of two times `count` errors is called stable within 3 points."""
    first, second = (np.arange(count) < round(share * count) for share in (before, after))
    everything = np.ones(count, dtype=bool)
    if shared:
        member, wrong = first, {"predecessor": everything, "successor": everything}
    else:
        member = np.concatenate([first, second])
        halves = np.repeat([True, False], count)
        wrong = {"predecessor": halves, "successor": ~halves}
    labels = np.zeros(len(member), dtype=int)
    (row,) = compare_classes({"any": member}, wrong, labels, binary=False, margin=0.03)
    return row["stable"]


def test_stable_is_said_only_where_the_whole_interval_lies_within_the_margin():
    assert stable(0.1, 0.1, 1_000) is True
    assert stable(0.5, 0.5, 2) is None
    assert stable(0.1, 0.1, 100, shared=False) is None
    assert stable(0.1, 0.1, 2_000, shared=False) is True
    assert stable(0.1, 0.2, 2_000, shared=False) is False
    assert stable(0.2, 0.1, 2_000, shared=False) is False
    assert stable(0.1, 0.13, 2_000, shared=False) is None


def test_the_interval_holds_the_true_difference_as_often_as_it_says():
    generator = np.random.default_rng(0)
    hits, trials, size = 0, 400, 2_000
    # classes are 30 % of the texts and of the predecessor's errors; the successor mends a quarter of them, and 5 % of the others
    truth = 0.3 * 0.75 / (0.3 * 0.75 + 0.7 * 0.95) - 0.3
    for _ in range(trials):
        member, before, draw = generator.random((3, size))
        member, before = member < 0.3, before < 0.2
        wrong = {"predecessor": before, "successor": before & (draw < np.where(member, 0.75, 0.95))}
        (row,) = compare_classes({"any": member}, wrong, np.zeros(size, dtype=int), binary=False, margin=0.03)
        hits += row["difference"]["low"] <= truth <= row["difference"]["high"]
    assert hits / trials > 0.93
