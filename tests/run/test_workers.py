"""What workers promise of cells: each made once, what failed is known to all, what is gone is made again, one at a time in turn."""

import io
import threading

import pytest
from rich.console import Console

from plankwise.errors import ConfigError, RunError
from plankwise.run import dividing, workers
from plankwise.run.folders import FolderLock
from plankwise.run.workers import Workers
from plankwise.training.interruption import InterruptedRunError


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    for module in (dividing, workers):
        monkeypatch.setattr(module, "POLL", 0.01)


@pytest.fixture
def make(tmp_path):
    """Cells are files; gives a worker, its cells' places, what it has begun, and a function that shares them."""

    class Maker:
        def __init__(self, url="here", faults=()):
            self.console = Console(file=io.StringIO(), width=200)
            self.workers = Workers(url, "compare", tmp_path / "f", self.console)
            self.faults, self.begun = faults, []
            self.places = {name: tmp_path / "f" / name for name in "abc"}

        def work(self, cell, claim):
            self.begun.append(cell)
            if cell in self.faults:
                raise ConfigError(f"{cell} cannot be")
            (self.places[cell] / "made").touch()

        def share(self):
            return self.workers.share(self.places, self.work, lambda cell: (self.places[cell] / "made").is_file())

    return Maker


def test_each_cell_is_made_once_by_whichever_worker_is_free(make):
    makers = [make() for _ in range(3)]
    threads = [threading.Thread(target=one.share) for one in makers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(cell for one in makers for cell in one.begun) == ["a", "b", "c"]


def test_a_failed_cell_is_known_to_all_and_tried_again_once_all_others_are_there(make):
    first = make(faults="b")
    assert first.share() == {"b": "b cannot be"}
    assert "workers: b failed: b cannot be\n" in first.console.file.getvalue()
    again = make(faults="b")
    assert again.share() == {"b": "b cannot be"}
    assert again.begun == ["b"]
    mended = make()
    assert mended.share() == {}
    assert mended.begun == ["b"]
    assert not (mended.places["b"] / "failure.json").exists()


def test_a_cell_that_has_failed_is_left_while_others_are_to_be_made(make):
    first = make(faults="a")

    def stop(cell, claim):
        if cell == "b":
            raise InterruptedRunError("stopped")
        Maker.work(first, cell, claim)

    Maker = type(first)  # noqa: N806
    first.work = stop
    with pytest.raises(InterruptedRunError):
        first.share()
    second = make()
    assert second.share() == {"a": "a cannot be"}
    assert second.begun == ["b", "c"]


def test_a_cell_whose_folder_was_deleted_or_that_was_made_without_workers_is_as_its_folder_says(make):
    first = make()
    first.places["a"].mkdir(parents=True)
    (first.places["a"] / "made").touch()
    assert first.share() == {}
    assert first.begun == ["b", "c"]
    (first.places["c"] / "made").unlink()
    second = make()
    second.share()
    assert second.begun == ["c"]


def test_a_cell_that_another_worker_made_elsewhere_is_missed(make, monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 0.02)
    maker = make()
    maker.work = lambda cell, claim: None
    with pytest.raises(
        RunError, match="a is not there, though another worker has made it; let all workers see one --fol"
    ):
        maker.share()


def test_workers_do_in_turn_what_only_one_may_do_at_a_time(make):
    inside, seen = threading.Lock(), []

    def work():
        assert inside.acquire(blocking=False)
        seen.append(1)
        inside.release()
        return len(seen)

    found, makers = [], [make() for _ in range(3)]
    threads = [
        threading.Thread(target=lambda one=one: found.append(one.workers.in_turn("table", work))) for one in makers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [1, 2, 3]


def test_workers_hold_a_folder_together_and_a_command_alone_does_not_share_it(tmp_path):
    quiet = Console(quiet=True)
    with FolderLock(tmp_path, quiet, shared=True) as first:
        first.acquire()
        with FolderLock(tmp_path, quiet, shared=True) as second:
            second.acquire()
        assert (tmp_path / ".lock").is_file()
        with FolderLock(tmp_path, quiet) as alone, pytest.raises(RunError, match="is being written by process"):
            alone.acquire()
    assert not (tmp_path / ".lock").exists()
    with FolderLock(tmp_path, quiet) as alone:
        alone.acquire()
        with FolderLock(tmp_path, quiet, shared=True) as worker, pytest.raises(RunError, match="is being written by"):
            worker.acquire()


def test_long_names_stay_apart_and_short_ones_stay_as_they_are():
    one, other = ("x" * 300 + end for end in "ab")
    assert workers._short(one) != workers._short(other)
    assert len(workers._short(one)) == dividing.LONGEST
    assert workers._short("films/cut/seed-0") == "films/cut/seed-0"


def test_a_database_that_is_none_and_ranks_are_refused_before_anything_is_made(make, monkeypatch, tmp_path):
    with pytest.raises(ConfigError, match="--workers is not the URL of a database"):
        make(url="nothing").workers.check()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="start the same command several times instead of by torchrun"):
        make().workers.check()
    assert not (tmp_path / "f").exists()
