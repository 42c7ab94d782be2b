import pytest

from plankwise import folders
from plankwise.config import validate_config
from plankwise.errors import RunError
from plankwise.record import write_record


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
    with pytest.raises(RunError, match="holds files that are no run of plankwise"):
        folders.is_finished(tmp_path, config)
    (tmp_path / "config.toml").write_text("not toml")
    with pytest.raises(RunError, match=r"config.toml cannot be read .*choose another run.folder, or delete it"):
        folders.is_finished(tmp_path, config)


def test_other_rules_for_the_analysis_make_no_other_run(tmp_path):
    folders.claim(tmp_path / "run", validate_config({}))
    assert not folders.is_finished(tmp_path / "run", validate_config({"analysis": {"margin": 0.1}}))
