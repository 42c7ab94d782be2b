"""A plan as a recipe: TOML that reads back as what was meant, comments where they help."""

import tomllib

from plankwise.core.plan import Plan, Slot
from plankwise.search.writing import as_recipe

PLAN = Plan(
    (Slot("encoder.layer", (0, 1)), Slot("encoder.layer", (2,), "thin", {"ffn": 0.5, "on": True, "a b": ['x\n"', 1]}))
)


def write(recipe, predecessor=None, told=("why",)):
    return as_recipe(recipe, PLAN, predecessor, told, ["first", "second"])


def test_slots_are_written_with_their_options_whatever_is_in_them():
    found = tomllib.loads(write({"task": {"name": "reviews"}}))
    assert found["plan"]["slots"] == [
        {"path": "encoder.layer", "span": [0, 1], "part": "layers"},
        {"path": "encoder.layer", "span": [2], "part": "thin", "options": {"ffn": 0.5, "on": True, "a b": ['x\n"', 1]}},
    ]
    assert found["task"] == {"name": "reviews"}


def test_what_slots_say_replaces_what_the_recipe_said_and_all_else_stays():
    plan = {"successors": 3, "cut": "late", "part": "layers", "init": "solved", "solving": {"tokens": 9, "texts": None}}
    found = tomllib.loads(write({"run": {"name": "a", "folder": "runs/a"}, "plan": plan}))
    assert found["plan"].keys() == {"init", "solving", "slots"}
    assert found["plan"]["solving"] == {"tokens": 9}
    assert found["run"] == {"name": "a-planned", "folder": "runs/a-planned"}


def test_a_predecessor_that_was_trained_is_not_trained_again():
    found = tomllib.loads(write({"predecessor": {"path": "hub", "finetune": True}}, predecessor="runs/p/predecessor"))
    assert found["predecessor"] == {"path": "runs/p/predecessor", "finetune": "auto"}
    assert tomllib.loads(write({"predecessor": {"path": "hub"}}))["predecessor"] == {"path": "hub"}


def test_reasons_are_comments_of_readable_length_even_if_they_have_line_breaks():
    lines = write({}, told=["word " * 80, "path\n= 1"]).splitlines()
    assert all(len(line) <= 120 for line in lines)
    assert "# path = 1" in lines
    assert lines.index("    # second") == next(place for place, line in enumerate(lines) if "thin" in line) - 1
