"""Several processes as one: what happens once, what is told to the others, and what is added up."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from plankwise.context import Context, check_launcher, rebuild_error
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


ACCELERATE = {"ACCELERATE_MIXED_PRECISION": "no", "ACCELERATE_DYNAMO_BACKEND": "NO", "ACCELERATE_USE_CPU": "True"}


@pytest.mark.parametrize(
    "environment", [{}, {"WORLD_SIZE": "2", "MASTER_ADDR": "here"}, ACCELERATE, {**ACCELERATE, "WORLD_SIZE": "2"}]
)
def test_a_launcher_that_starts_processes_and_nothing_else_is_taken(environment):
    check_launcher(environment)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"ACCELERATE_USE_FSDP": "true"}, "accelerate's config asks for FSDP"),
        ({"ACCELERATE_USE_DEEPSPEED": "true"}, "asks for DeepSpeed"),
        ({"ACCELERATE_USE_MEGATRON_LM": "true"}, "asks for Megatron-LM"),
        ({"ACCELERATE_USE_PARALLELISM_CONFIG": "true"}, "a model in parts on several devices"),
        ({"ACCELERATE_DYNAMO_BACKEND": "INDUCTOR"}, "asks for compiled models"),
        ({"ACCELERATE_MIXED_PRECISION": "bf16"}, "mixed_precision = bf16, but a run computes as its recipe says"),
        ({"MASTER_ADDR": "127.0.0.1"}, "has started this one alone"),
    ],
)
def test_what_a_launcher_asks_for_beside_processes_is_refused(asked, told):
    with pytest.raises(ConfigError, match=told):
        check_launcher({**ACCELERATE, **asked})


def test_a_launch_with_fsdp_is_refused_before_anything_is_written(refusal, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    assert "torchrun --nproc_per_node=2 -m plankwise" in refusal()
