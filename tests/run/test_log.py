"""log.txt: what a run prints, with the time, in its folder; a log that cannot be written never stops a run."""

import io
import re

import pytest
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from plankwise.config import validate_config
from plankwise.errors import RunError
from plankwise.run.folders import FolderLock, claim, claimed
from plankwise.run.log import LOG, logged


@pytest.fixture
def config(tmp_path):
    return validate_config({"run": {"folder": str(tmp_path / "run")}})


def read(folder) -> list[str]:
    """The lines of a log without the time, which each of them begins with."""
    lines = (folder / LOG).read_text("utf-8").splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  .*\S", line) for line in lines)
    return [line[21:] for line in lines]


@pytest.mark.parametrize("quiet", [False, True])
def test_a_log_has_what_was_printed_before_and_after_the_folder_was_claimed(tmp_path, config, quiet):
    console = Console(file=io.StringIO(), quiet=quiet)
    with FolderLock(tmp_path / "run", console) as lock:
        console.print("3 duplicates dropped")
        assert not (tmp_path / "run").exists()
        with claimed(lock, config):
            console.print(f"path: {'x' * 300}", soft_wrap=True)
    console.print("not in the log")
    assert read(tmp_path / "run") == ["3 duplicates dropped", f"path: {'x' * 300}"]


def test_a_run_that_goes_on_appends_and_the_error_that_ended_it_is_there(tmp_path, config):
    console, folder = Console(quiet=True), tmp_path / "run"
    folder.mkdir()
    claim(folder, config)

    def fail(text: str) -> None:
        with FolderLock(folder, console) as lock:
            lock.acquire()
            console.print(text)
            raise RunError(f"the {text} error")

    for text in ("first", "second"):
        with pytest.raises(RunError):
            fail(text)
    assert read(tmp_path / "run") == ["first", "the first error", "second", "the second error"]


def test_colours_bars_and_empty_lines_are_not_in_the_log(tmp_path, config):
    console = Console(file=io.StringIO(), force_terminal=True, width=60)
    with FolderLock(tmp_path / "run", console) as lock, claimed(lock, config):
        table = Table("", "score", title="results")
        table.add_row("successor", "[0.9]")
        with Progress(console=console) as bar:
            task = bar.add_task("replacing", total=2)
            bar.advance(task)
            console.print("halfway", style="red")
        console.print("", table)
    text = (tmp_path / "run" / LOG).read_text("utf-8")
    assert "\x1b" not in text
    assert "replacing" not in text
    assert read(tmp_path / "run")[0] == "halfway"
    assert any("successor" in line and "0.9" in line for line in read(tmp_path / "run"))


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path, config):
    console = Console(file=io.StringIO())
    (tmp_path / "run" / LOG).mkdir(parents=True)
    with FolderLock(tmp_path / "run", console) as lock, claimed(lock, config):
        console.print("trained")
    assert "trained" in console.file.getvalue()


def test_what_is_printed_after_a_run_is_added_to_its_log_and_a_folder_without_one_gets_none(tmp_path):
    console = Console(quiet=True)
    (tmp_path / LOG).write_text("", "utf-8")
    (tmp_path / "other").mkdir()
    for folder in (tmp_path, tmp_path / "other"):
        with logged(console, folder):
            console.print("results")
    assert read(tmp_path) == ["results"]
    assert not list((tmp_path / "other").iterdir())
