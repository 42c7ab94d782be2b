"""Several processes as one: what happens once, what is told to the others, and what is added up."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from plankwise.context import Context, rebuild_error
from plankwise.errors import ConfigError, MissingExtraError, RunError
from workers import free_port, join_ranks, meet, wait


def test_one_process_just_does_it():
    context = Context(Console(quiet=True), Path("run"), seed=3)
    assert context.on_main(lambda: 5) == 5
    assert context.total(1, 2.5) == [1, 2.5]
    assert context.is_main
    assert context.device.type == "cpu"
    other = context.at(Path("other"), 4)
    assert (other.folder, other.seed, context.seed) == (Path("other"), 4, 3)
    with pytest.raises(ConfigError, match="wrong"):
        context.on_main(lambda: (_ for _ in ()).throw(ConfigError("wrong")))


def test_two_processes_do_it_on_rank_0_and_all_know_what_came_of_it(tmp_path):
    ranks = join_ranks(meet, 2, free_port(), str(tmp_path))
    assert [wait(process) for process in ranks] == [0, 0]
    first, second = (json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in (0, 1))
    assert first["who"] == second["who"] == 0  # rank 0 did it
    assert first["total"] == second["total"] == [1.0, 20.0]
    assert first["quiet"] is False
    assert second["quiet"] is True
    assert first["raised"] == ["ConfigError", "wrong", False]
    assert second["raised"] == ["ConfigError", "wrong", True]
    assert first["failed"] == ["ZeroDivisionError", "division by zero", None]
    assert second["failed"] == ["RunError", "rank 0 failed: division by zero", True]
    assert first["met"] == second["met"] == [True, False]  # each leaves the group before the interpreter is torn down


@pytest.mark.parametrize("kind", [ConfigError, RunError, MissingExtraError])
def test_an_error_of_rank_0_keeps_its_class_and_its_words(kind):
    error = rebuild_error(kind, "the sentence")
    assert (type(error), str(error), error.told_by_rank_0) == (kind, "the sentence", True)
