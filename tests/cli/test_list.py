import json
from typing import get_args

import pytest

from plankwise.analysis_options import RuleKind, RuleOptions
from plankwise.cli.list import LISTED
from plankwise.core.schedule import SCHEDULES
from plankwise.evaluation.metrics import METRICS
from plankwise.kinds import list_kinds
from plankwise.parts import STARTS

KINDS = ("export", "families", "methods", "parts", "runtimes", "studies", "task_kinds", "tasks")
NAMES = {
    **{folder: list_kinds(folder) for folder in KINDS},
    "inits": [*STARTS, "solved", "fitted", "auto", "PATH"],
    "metrics": list(METRICS),
    "rules": list(get_args(RuleKind)),
    "schedules": list(SCHEDULES),
}


@pytest.mark.parametrize("what", NAMES)
def test_everything_is_listed_with_what_it_is(command, what):
    result = command("list", what)
    assert result.code == 0
    lines = [line for line in result.out.splitlines() if not line.startswith(" ")]
    assert [line.split()[0] for line in lines] == NAMES[what]
    assert all(len(line.split()) > 2 for line in lines)


def test_without_an_argument_all_that_can_be_listed_is_shown(command):
    result = command("list")
    assert result.code == 0
    assert [line.split()[0] for line in result.out.splitlines() if not line.startswith(" ")] == list(LISTED)
    assert set(LISTED) == {*NAMES, "keys"}


def test_a_list_is_json_if_asked(command):
    entries = json.loads(command("list", "rules", "--json").out)
    assert [entry["name"] for entry in entries] == NAMES["rules"]
    assert json.loads(command("list", "keys", "analysis", "--json").out)[0]["keys"][1]["path"] == "analysis.margin"


def test_the_options_of_a_rule_are_those_that_it_has_by_default(command):
    entries = {entry["name"]: entry for entry in json.loads(command("list", "rules", "--json").out)}
    rule = RuleOptions.model_validate({"kind": "rare_words"})
    assert entries["rare_words"]["options"] == f"above = {rule.above}, seen = {rule.seen}"
    assert entries["capitals"]["options"] == f"above = {RuleOptions.model_validate({'kind': 'capitals'}).above}"


def test_schedules_are_listed_with_their_defaults(command):
    assert "start = 0.3, full_at = 0.5" in command("list", "schedules").out


def test_brackets_are_shown_as_they_stand(command):
    assert "plankwise[demo]" in command("list", "tasks").out
    assert "`rates[i]`" in command("list", "schedules").out


def test_what_cannot_be_listed_is_refused(command):
    result = command("list", "scheduls")
    assert result.code == 2
    assert "'scheduls' cannot be listed; there is no such list. Did you mean 'schedules'?" in result.err
    assert "only keys have sections" in command("list", "methods", "training").err
