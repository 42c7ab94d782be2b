from plankwise.config import RunConfig
from plankwise.sweep.scores import Choice, choosing_score, tell_choice


def record(choose_on, *history, best_step=4):
    stages = {"replacing": {"history": list(history), "best_step": best_step}} if history else {}
    return {
        "successor": {"score": 0.7},
        "stages": stages,
        "config": {"evaluation": {"choose_on": choose_on}},
    }


def entry(step, score, **halves):
    return {"step": step, "eval_score": score, **{f"eval_score_{name}": value for name, value in halves.items()}}


def test_one_half_of_dev_chooses_and_the_other_reports_at_the_evaluation_that_was_kept():
    first = entry(2, 0.5, half_1=0.9, half_2=0.1)
    kept = entry(4, 0.7, half_1=0.6, half_2=0.8)
    assert tell_choice(record("dev", first, kept)) == Choice(0.6, 0.8)


def test_examples_kept_out_of_training_choose_and_dev_reports():
    assert tell_choice(record("train", entry(4, 0.9, half_1=0.8, half_2=1.0))) == Choice(0.9, 0.7)


def test_without_halves_or_without_training_the_whole_of_dev_chooses_and_nothing_is_left_to_report():
    assert tell_choice(record("dev", entry(4, 0.7))) == Choice(0.7, None)
    assert tell_choice(record("dev")) == Choice(0.7, None)


def test_trials_are_pruned_by_what_chooses_them():
    metrics = entry(2, 0.5, half_1=0.25, half_2=0.75)
    assert choosing_score(metrics, RunConfig()) == 0.25
    assert choosing_score(metrics, RunConfig(evaluation={"choose_on": "train"})) == 0.5
    assert choosing_score({"eval_score": 0.5}, RunConfig()) == 0.5
