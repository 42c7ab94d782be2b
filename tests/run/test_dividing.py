import os
import threading

import pytest

from databases import new_database
from plankwise.errors import ConfigError, RunError
from plankwise.run import dividing
from plankwise.run.dividing import ClaimLostError, Division, open_engine


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'work.db'}"
    return new_database(request.getfixturevalue("postgresql"))


@pytest.fixture
def open_division(url):
    engines = []

    def make(work="cells", **options):
        engines.append(open_engine(url, "--storage"))
        return Division(engines[-1], work, **options)

    yield make
    for engine in engines:
        engine.dispose()


def claim_for(division, item, worker):
    """Has an item claimed by another worker."""
    division._add([item])
    assert division._change(item, worker=worker)


def worker_elsewhere():
    return f"another-machine/1/{dividing._started(1)}/x"


def test_every_item_is_done_once_in_order_and_never_again(open_division):
    done = []
    open_division().do(["a", "b", "c"], lambda claim: done.append(claim.item))
    assert done == ["a", "b", "c"]
    open_division().do(["a", "b", "c", "d"], lambda claim: done.append(claim.item))
    assert done == ["a", "b", "c", "d"]


def test_works_of_other_names_are_apart(open_division):
    done = []
    for work in ("first", "second"):
        open_division(work).do(["a"], lambda claim: done.append(claim.item))
    assert done == ["a", "a"]


def test_threads_that_share_a_database_do_each_item_once(open_division, monkeypatch):
    monkeypatch.setattr(dividing, "POLL", 0.01)
    items, done = [str(number) for number in range(30)], []
    divisions = [open_division() for _ in range(3)]
    threads = [
        threading.Thread(target=one.do, args=(items, lambda claim: done.append(claim.item))) for one in divisions
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done, key=int) == items


def test_an_item_whose_process_is_gone_from_this_machine_is_taken_over_at_once(open_division):
    division, done = open_division(grace=1e9), []
    claim_for(division, "a", f"{dividing._machine()}/{os.getpid()}/another start/x")
    assert division.holders() == {"a": True}
    division.do(["a"], lambda claim: done.append(claim.item))
    assert done == ["a"]


def test_an_item_of_another_machine_is_taken_over_once_its_beats_stand_still(open_division, monkeypatch):
    monkeypatch.setattr(dividing, "POLL", 0.01)
    division, done, told = open_division(grace=0.05), [], []
    claim_for(division, "a", worker_elsewhere())
    assert division.holders() == {"a": False}
    division.do(["a"], lambda claim: done.append(claim.item), told.append)
    assert done == ["a"]
    assert told == ["waiting for other workers, which have a"]


def test_an_item_whose_beats_go_on_is_waited_for(open_division, monkeypatch):
    division, looks = open_division(grace=0.0), []
    claim_for(division, "a", worker_elsewhere())

    def beat(seconds):
        looks.append(seconds)
        beats = division._rows()[0].beats
        division._change("a", beats=beats + 1, done=len(looks) == 5)

    monkeypatch.setattr(dividing.time, "sleep", beat)
    division.do(["a"], lambda claim: pytest.fail("another worker has it"))
    assert len(looks) == 5


def test_of_two_that_see_the_same_free_item_one_gets_it(open_division):
    first, second = open_division(), open_division()
    first._add(["a"])
    (row,) = first._rows()
    assert [first._claim(row), second._claim(row)] == [True, False]


def test_what_fails_or_is_stopped_is_given_back(open_division):
    division = open_division()

    def fail(claim):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        division.do(["a"], fail)
    assert division.holders() == {}
    done = []
    open_division().do(["a"], lambda claim: done.append(claim.item))
    assert done == ["a"]


def test_a_worker_whose_item_was_taken_over_hears_of_it_and_leaves_it_alone(open_division, monkeypatch):
    monkeypatch.setattr(dividing, "POLL", 0.01)
    division, told = open_division(beat=0.01), []

    def lose(claim):
        division._change("a", worker=worker_elsewhere(), done=True)
        assert claim.lost.wait(10)
        claim.check()

    division.do(["a"], lose, told.append)
    assert told == ["a was taken over by another worker, after this one had been silent"]
    assert division._rows()[0].worker == worker_elsewhere()


def test_a_lost_claim_is_an_error_of_a_run():
    assert issubclass(ClaimLostError, RunError)


def test_what_is_not_a_database_is_refused_without_its_password(tmp_path):
    known = {
        "nothing": "--storage is",
        "me:secret@host/name": "--storage is",
        "me:secret@host://name": "--storage is",
        "ftp://me:secret@host/name": "--storage begins with 'ftp://', but is",
        "postgresql://me:secret@host:secret/name": "--storage begins with 'postgresql://', but is",
    }
    for url, said in known.items():
        with pytest.raises(ConfigError) as caught:
            open_engine(url, "--storage")
        assert str(caught.value).startswith(f"{said} not the URL of a database; give one like sqlite:")
        assert "secret" not in str(caught.value)
        assert "me" not in str(caught.value).partition(";")[0].split()


def test_a_database_that_cannot_be_reached_is_named_without_its_password(tmp_path):
    with pytest.raises(
        RunError, match=r"--storage is postgresql://me:\*\*\*@127.0.0.1:1/x, which cannot be used"
    ) as caught:
        open_engine("postgresql://me:secret@127.0.0.1:1/x", "--storage")
    assert "secret" not in str(caught.value)
    with pytest.raises(RunError, match="which cannot be used"):
        open_engine(f"sqlite:///{tmp_path / 'missing' / 'x.db'}", "--storage")
