"""A successor that was solved and not trained is told as that, wherever steps are told of the others."""

import pytest

from plankwise.report.card import make_card
from plankwise.report.results import results_of
from plankwise.report.sections import run_sections
from plankwise.report.verdict import tiles, verdict


@pytest.fixture
def solved(records):
    """The record of a run whose method is `solve`; the truncated model has not been trained either."""
    record = records.plain()
    del record["masks"]
    untrained = {"steps": 0, "max_steps": 0, "seconds_to_best": 0.0, "best_step": 0, "history": [], "held_back": None}
    record["stages"] = {
        "predecessor": record["stages"]["predecessor"],
        "solving": {"name": "solving", "seconds": 21.4, "best_score": -0.0156, **untrained},
        "truncated": {"name": "truncated", "seconds": 0.0, "best_score": 0.0, **untrained},
    }
    record |= {"steps": 0, "skipped_steps": 0, "seconds_by": {"predecessor": 40.2, "successor": 21.4}, "seconds": 61.6}
    record |= {
        "init": "solved",
        "solving": {"texts": 1234, "tokens": 30_000, "effect_before": 0.5072, "effect": 0.0156},
    }
    record["config"]["method"] = {"name": "solve"}
    return record


def test_the_terminal_says_that_nothing_was_trained_and_how_long_solving_took(solved):
    notes = results_of(solved).notes
    assert "no training: the successor was solved in 21 s, on 1,234 texts without labels" in notes
    assert "training: predecessor 40 s" in notes
    assert not [note for note in notes if "steps" in note]


def test_a_head_that_was_solved_on_labels_is_told_with_its_labels(solved):
    head = {"examples": 4000, "strength": 0.01, "score_before": 0.835, "score": 0.846, "losses": {}}
    solved["solving"] |= {"head": head, "slots": [{"slot": "0-1", "start": "upper", "maps": 6, "effect": 0.0156}]}
    notes = results_of(solved).notes
    assert (
        "no training: the successor was solved in 21 s, on 1,234 texts without labels, its head on 4,000 labels"
        in notes
    )
    assert "score on examples left out 0.8350 before, 0.8460 after." in run_sections(solved, "key")
    head["strength"] = None
    assert "The head stayed as it was: none that was solved on 4000 labels" in run_sections(solved, "key")


def test_a_predecessor_that_was_given_leaves_no_training_to_tell(solved):
    del solved["seconds_by"]["predecessor"]
    assert not [note for note in results_of(solved).notes if note.startswith("training:")]


def test_a_method_that_neither_trains_nor_solves_is_told_by_its_time(solved):
    del solved["solving"]
    assert "no training: the successor took 21 s" in results_of(solved).notes
    assert tiles(solved)[3].note == "no training; predecessor 40 s"


def test_the_cost_is_called_solving(solved):
    cost = tiles(solved)[3]
    assert (cost.value, cost.note) == ("21 s", "of solving, no training; predecessor 40 s")


def test_of_a_successor_that_was_solved_and_trained_the_cost_is_of_both(solved):
    solved["steps"] = 60
    assert tiles(solved)[3].note == "of solving and training the successor, 60 steps; predecessor 40 s"


@pytest.mark.parametrize(
    ("score", "told"),
    [
        (0.500, "; a truncated model without training keeps 62.7%."),
        (0.778, "; no difference is shown between it and a truncated model without training, which keeps 97.5%"),
        (0.900, "; it does not beat the truncated model, which, without training, keeps 112.8%"),
    ],
)
def test_a_truncated_model_beside_it_is_called_untrained(solved, score, told):
    solved["truncated"] |= {"score": score, "metrics": {"accuracy": score}, "retained": score / 0.798}
    assert told in verdict(solved)
    assert "trained as long" not in verdict(solved)


def test_one_that_knows_one_answer_is_to_be_trained(solved):
    solved["successor"]["beyond_constant"] = {"answered": 1, "most_answered": "negative", "shown": False}
    advice = "train it (another method.name) or cut less (plan.successors)"
    assert f"The successor answers only 'negative': {advice}." in verdict(solved)
    assert f"the successor answers only 'negative': {advice}" in results_of(solved).notes


def test_the_page_tells_the_effect_and_no_step_of_what_was_not_trained(solved):
    page = run_sections(solved, "key")
    assert "solving: 21 s, no training, end effect 0.0156 (0.5072 of copies)" in page
    assert "truncated: no training" in page
    assert "predecessor: 200 steps" in page
    assert "0 steps," not in page.replace("200 steps,", "")
    assert "at step 0" not in page


def test_the_card_says_that_nothing_was_trained_and_nothing_chosen(solved):
    card = make_card(solved)
    assert "replaced by 3 successors (method: solve), without training, with seed 0." in card
    assert "truncated: the predecessor's lower blocks alone, without training." in card
    assert "chose the best checkpoint" not in card
    assert "0 steps" not in card


def test_old_records_and_trained_runs_read_as_before(records):
    record = records.plain()
    assert "200 steps, 9 of them skipped: no slot was replaced" in results_of(record).notes
    assert "in 200 steps with seed 0." in make_card(record)
    assert "that also chose the best checkpoint" in make_card(record)
