import tomllib
from pathlib import Path

import pytest
import tomli_w
from rich.console import Console

from plankwise.config import validate_config
from plankwise.errors import RunError
from plankwise.record import write_record
from plankwise.run import folders
from workers import hold_lock_and_die, start, wait


@pytest.fixture
def config():
    return validate_config({"plan": {"successors": 3}})


@pytest.mark.parametrize("state", ["absent", "empty", "killed while it was claimed"])
def test_an_unused_folder_is_free(tmp_path, config, state):
    folder = tmp_path / "run"
    if state != "absent":
        folder.mkdir()
    if state.startswith("killed"):
        (folder / ".config.toml.abc.part").write_text("half")
    assert not folders.is_finished(folder, config)


def test_a_claimed_run_is_finished_once_it_has_a_record(tmp_path, config):
    folders.claim(tmp_path, config)
    assert not folders.is_finished(tmp_path, config)
    write_record(tmp_path, {"score": 1})
    assert folders.is_finished(tmp_path, config)


def test_claiming_sweeps_what_a_killed_process_left(tmp_path, config):
    (tmp_path / ".successor.abc.part").mkdir()
    folders.claim(tmp_path, config)
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"plan": {"successors": 2}}, "plan.successors is 3 there, 2 here"),
        ({}, "plan.successors is 3 there, absent here"),
        ({"plan": {"successors": 3}, "run": {"seed": 1}}, "run.seed is 0 there, 1 here"),
        (
            {"plan": {"successors": 3}, "method": {"schedule": {"start": 0.1}}},
            "method.schedule.start is 0.3 there, 0.1 here",
        ),
    ],
)
def test_another_run_is_refused_with_the_key_that_differs(tmp_path, config, other, difference):
    folders.claim(tmp_path, config)
    with pytest.raises(RunError) as caught:
        folders.is_finished(tmp_path, validate_config(other))
    assert difference in str(caught.value)
    assert "choose another run.folder" in str(caught.value)


def test_a_file_foreign_files_and_a_damaged_config_are_refused(tmp_path, config):
    (tmp_path / "thesis.doc").write_text("x")
    with pytest.raises(RunError, match="which is a file"):
        folders.is_finished(tmp_path / "thesis.doc", config)
    with pytest.raises(RunError, match="holds files that are not a run of plankwise"):
        folders.is_finished(tmp_path, config)
    (tmp_path / "config.toml").write_text("not toml")
    with pytest.raises(RunError, match=r"config.toml cannot be read .*choose another run.folder, or delete it"):
        folders.is_finished(tmp_path, config)


def test_other_rules_for_the_analysis_make_no_other_run(tmp_path):
    folders.claim(tmp_path / "run", validate_config({}))
    assert not folders.is_finished(tmp_path / "run", validate_config({"analysis": {"margin": 0.1}}))


def test_a_key_that_an_earlier_version_did_not_have_makes_no_other_run(tmp_path, config):
    folders.claim(tmp_path, config)
    data = tomllib.loads((tmp_path / "config.toml").read_text())
    del data["evaluation"]["runtime"], data["training"]["fast_dropout"], data["plan"]["options"]
    data["evaluation"]["floor"] = data["evaluation"].pop("truncated")
    (tmp_path / "config.toml").write_text(tomli_w.dumps(data))
    assert not folders.is_finished(tmp_path, config)
    other = validate_config({"plan": {"successors": 3}, "training": {"fast_dropout": False}})
    with pytest.raises(RunError, match=r"training.fast_dropout is auto there, False here"):
        folders.is_finished(tmp_path, other)


QUIET = Console(quiet=True)


def test_a_second_process_is_refused_with_the_name_of_the_first(tmp_path):
    with folders.FolderLock(tmp_path / "run", QUIET) as lock:
        lock.acquire()
        lock.acquire()  # taking it again changes nothing
        holder = (tmp_path / "run" / ".lock").read_text().strip()
        other = folders.FolderLock(tmp_path / "run", QUIET)
        with pytest.raises(RunError) as caught:
            other.acquire()
        assert f"is being written by {holder}; wait until it has ended" in str(caught.value)
    assert not (tmp_path / "run" / ".lock").exists()
    with other:
        other.acquire()


def test_a_lock_goes_with_the_process_that_held_it_however_it_ended(tmp_path):
    process = start(hold_lock_and_die, str(tmp_path / "run"))
    assert wait(process) == 7
    assert (tmp_path / "run" / ".lock").exists()
    with folders.FolderLock(tmp_path / "run", QUIET) as lock:
        lock.acquire()
    assert not folders.is_finished(tmp_path / "run", validate_config({}))


def test_a_new_folder_goes_again_if_what_is_found_inside_cannot_be_used(tmp_path, config):
    lock = folders.FolderLock(tmp_path / "run", QUIET)
    with pytest.raises(RunError, match="bad data"), lock, folders.claimed(lock, config):
        raise RunError("bad data")
    assert not Path(tmp_path / "run").exists()


def test_a_run_of_other_processes_goes_on_only_in_steps_of_the_same_size(tmp_path, config, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    folders.claim(tmp_path, config)
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert not folders.is_finished(tmp_path, config)  # nothing has been trained
    (tmp_path / "checkpoints" / "replacing").mkdir()
    size = config.training.batch_size
    with pytest.raises(
        RunError, match=rf"by 4 processes in steps of .*{4 * size} examples .* and 3 processes would take"
    ) as told:
        folders.is_finished(tmp_path, config)
    assert "training.batch_size = " not in str(told.value) or size % 3 == 0
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RunError, match=rf"training\.batch_size = {2 * size}, start 4 processes"):
        folders.is_finished(tmp_path, config)

    def twice(training):
        return training.model_copy(update={"batch_size": 2 * training.batch_size, "accumulation": 2})

    predecessor = config.predecessor.model_copy(update={"training": twice(config.predecessor.training)})
    shared = config.model_copy(update={"training": twice(config.training), "predecessor": predecessor})
    assert not folders.is_finished(tmp_path, shared)
    other = shared.model_copy(update={"run": shared.run.model_copy(update={"seed": 5})})
    with pytest.raises(RunError, match=r"run\.seed is 0 there, 5 here"):
        folders.is_finished(tmp_path, other)
    patient = config.model_copy(update={"run": config.run.model_copy(update={"patience": "1h"})})
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert not folders.is_finished(tmp_path, patient)
