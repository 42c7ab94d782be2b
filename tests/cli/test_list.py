import pytest

from plankwise.core.schedule import SCHEDULES
from plankwise.kinds import list_kinds


@pytest.mark.parametrize("what", ["families", "methods", "parts", "runtimes", "studies", "task_kinds", "tasks"])
def test_every_kind_is_listed_with_what_it_is(command, what):
    result = command("list", what)
    assert result.code == 0
    lines = [line for line in result.out.splitlines() if not line.startswith(" ")]
    assert [line.split()[0] for line in lines] == list_kinds(what)
    assert all(len(line.split()) > 2 for line in lines)


def test_every_schedule_is_listed_with_its_defaults(command):
    out = command("list", "schedules").out
    assert [line.split()[0] for line in out.splitlines() if not line.startswith(" ")] == list(SCHEDULES)
    assert "start = 0.3, full_at = 0.5" in out


def test_brackets_are_shown_as_they_stand(command):
    assert "plankwise[demo]" in command("list", "tasks").out
    assert "`rates[i]`" in command("list", "schedules").out


def test_what_cannot_be_listed_is_refused(command):
    result = command("list", "scheduls")
    assert result.code == 2
    assert "schedules" in result.err
