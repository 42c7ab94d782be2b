import pytest

from plankwise.report.verdict import tiles, verdict


def test_the_sentence_says_size_speed_share_and_the_truncated_model(records):
    record = records.plain()
    record["task"]["dev"] = {"dev": 100_000}
    assert verdict(record) == (
        "The successor is 1.3 times smaller and 1.8 times faster and keeps 98.5% of accuracy; "
        "a truncated model trained as long keeps 97.5%."
    )


def test_a_gap_that_the_dev_set_cannot_show_is_called_so(records):
    assert verdict(records.plain()).endswith("a gap within the sampling error of 1,000 dev examples.")


def test_equal_scores_are_a_tie(records):
    record = records.plain()
    record["successor"]["score"] = record["truncated"]["score"]
    told = "; no difference is shown between it and a truncated model trained as long, which keeps 97.5%."
    assert verdict(record).endswith(told)


def test_a_lower_score_within_the_sampling_error_is_a_tie_too(records):
    record = records.plain()
    record["successor"]["score"] = 0.77
    told = "; no difference is shown between it and a truncated model trained as long, which keeps 97.5%, a gap within "
    assert told in verdict(record)


def test_a_successor_that_does_not_beat_the_truncated_model_is_not_praised(records):
    record = records.plain()
    record["successor"]["score"] = 0.7
    assert "; it does not beat the truncated model, which, trained as long, keeps 97.5%." in verdict(record)


def test_speed_that_was_not_measured_is_not_claimed(records):
    record = records.plain()
    record["speedup"] = None
    assert "faster" not in verdict(record)
    assert verdict(record).endswith("; its speed was not measured.")
    faster = tiles(record)[1]
    assert (faster.value, faster.note) == ("–", "not measured")


def test_the_analysis_gives_the_speed_that_the_run_did_not_measure(records):
    record = records.analysed()
    record["speedup"] = None
    for name in ("predecessor", "successor"):
        record[name]["latency_ms"] = None
    record["analysis"]["cost"]["speedup"] = {"1": 2.5}
    assert "2.5 times faster" in verdict(record)
    assert tiles(record)[1].note == "20.0 → 11.2 ms, batch of 1"


@pytest.mark.parametrize(
    ("ratio", "words"), [(0.5, "2.0 times slower"), (1.004, "as fast"), (1.02, "1.02 times faster")]
)
def test_a_slower_or_equal_successor_is_called_that(records, ratio, words):
    record = records.plain()
    record["speedup"] = ratio
    assert f"smaller and {words} and keeps" in verdict(record)


def test_a_language_model_is_judged_by_perplexity(records):
    record = records.plain()
    record["task"] = records.text_task()
    for name, value in {"predecessor": 10.2, "successor": 11.7, "truncated": 13.0}.items():
        record[name] |= {"metrics": {"perplexity": value}, "score": 1 / value}
    assert verdict(record) == (
        "The successor is 1.3 times smaller and 1.8 times faster and has a perplexity of 11.70, the predecessor 10.20; "
        "a truncated model trained as long has 13.00."
    )
    assert tiles(record)[2].note == "perplexity 10.20 → 11.70"


def test_a_lower_figure_is_better_where_the_record_says_so(records):
    record = records.plain()
    record["task"] = records.text_task()
    for name, value in {"predecessor": 10.2, "successor": 14.0, "truncated": 13.0}.items():
        record[name] |= {"metrics": {"perplexity": value}, "score": 1 / value}
    assert "; it does not beat the truncated model, which, trained as long, has 13.00." in verdict(record)


def test_an_unknown_kind_of_task_is_judged_by_its_own_metric(records):
    record = records.tagged(records.plain()) | {"retained": 88.77 / 91.23}
    record["truncated"]["retained"] = 80.5 / 91.23
    assert verdict(record).endswith("keeps 97.3% of F1 of entities; a truncated model trained as long keeps 88.2%.")
    assert tiles(record)[2].note == "F1 of entities 91.2 → 88.8"


def test_the_four_figures_come_from_the_record(records):
    shown = [(one.name, one.value, one.note) for one in tiles(records.plain())]
    assert shown == [
        ("smaller", "1.31×", "22.7 M → 17.4 M parameters"),
        ("faster", "1.79×", "19.0 → 10.6 ms, batch of 1"),
        ("kept", "98.5%", "accuracy 0.7980 → 0.7860"),
        ("cost", "7.6 min", "of training, 200 steps, 9 without a slot"),
    ]


def test_a_run_without_a_truncated_model_and_share_still_has_a_sentence(records):
    record = records.plain()
    del record["truncated"]
    record["retained"] = None
    assert verdict(record).endswith("1.8 times faster and has an accuracy of 0.7860.")


DEAD = {
    "constant": "'negative'",
    "constant_score": 0.645,
    "answered": 1,
    "most_answered": "negative",
    "most_answered_share": 1.0,
    "p": 1.0,
    "shown": False,
}
WEAK = {**DEAD, "answered": 2, "most_answered_share": 0.98, "p": 0.4}


def test_a_successor_that_answers_one_class_is_called_that_with_what_to_do(records):
    record = records.plain()
    record["successor"]["beyond_constant"] = DEAD
    assert verdict(record).startswith(
        "The successor answers only 'negative': train longer (training.epochs), cut less (plan.successors) or try another "
        "training.learning_rate. It is 1.3 times smaller and 1.8 times faster and has an accuracy of 0.7860, "
        "the predecessor 0.7980; "
    )
    assert "98.5%" not in verdict(record)
    assert (tiles(record)[2].value, tiles(record)[2].note) == (
        "–",
        "successor answers only 'negative'; accuracy 0.7980 → 0.7860",
    )


def test_a_successor_that_is_not_shown_to_beat_the_most_frequent_class_is_not_praised(records):
    record = records.plain()
    record["successor"]["beyond_constant"] = WEAK
    told = "The successor is not shown to be better than always answering 'negative' (0.6450): train longer "
    assert verdict(record).startswith(told)
    assert "keeps 98.5%" not in verdict(record)


def test_a_truncated_model_that_answers_one_class_does_not_keep_a_share(records):
    record = records.plain()
    record["truncated"]["beyond_constant"] = DEAD
    assert verdict(record).endswith(
        "and keeps 98.5% of accuracy; a truncated model trained as long answers only 'negative'."
    )


def test_nothing_is_kept_of_a_predecessor_that_knows_one_answer(records):
    record = records.plain()
    record["predecessor"]["beyond_constant"] = DEAD
    assert (
        "has an accuracy of 0.7860, the predecessor 0.7980; the predecessor itself answers only 'negative'; "
        in verdict(record)
    )
    assert tiles(record)[2].value == "–"


def test_a_model_that_beats_a_constant_answer_is_praised_as_before(records):
    record = records.plain()
    for name in ("predecessor", "successor", "truncated"):
        record[name]["beyond_constant"] = {**WEAK, "shown": True, "p": 0.001}
    assert verdict(record) == verdict(records.plain())
    assert tiles(record) == tiles(records.plain())


def test_the_successors_own_training_is_the_cost(records):
    record = records.plain() | {"seconds_by": {"predecessor": 40.0, "successor": 31.0, "truncated": 16.0}}
    cost = tiles(record)[3]
    assert (cost.value, cost.note) == (
        "31 s",
        "of training the successor, 200 steps, 9 without a slot; predecessor 40 s, truncated 16 s",
    )
    record["seconds_by"] = {"successor": 31.0}
    assert tiles(record)[3].note == "of training the successor, 200 steps, 9 without a slot"


def test_a_whole_model_is_not_called_a_successor(records):
    record = {**records.plain(), "model": records.plain()["predecessor"]}
    del record["successor"], record["predecessor"], record["truncated"]
    assert verdict(record) == "The model has an accuracy of 0.7980 on dev."
    assert [one.name for one in tiles(record)] == ["score", "size", "cost"]
    record["model"] = {**record["model"], "beyond_constant": DEAD}
    assert verdict(record) == (
        "The model has an accuracy of 0.7980 on dev; it answers only 'negative': train it longer (predecessor.training.epochs) "
        "or with another predecessor.training.learning_rate."
    )
    assert tiles(record)[0].note == "accuracy, answers only 'negative'"
