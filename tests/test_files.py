import errno
import os
import shutil

import pytest

from plankwise.errors import RunError
from plankwise.files import sweep_leftovers, whole_folder, write_text


def full_disk(*args, **kwargs):
    raise OSError(errno.ENOSPC, "No space left on device")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_with_the_folders_it_needs(tmp_path):
    write_text(tmp_path / "a" / "b" / "file.txt", "größer\n")
    assert (tmp_path / "a" / "b" / "file.txt").read_text("utf-8") == "größer\n"
    assert names(tmp_path / "a" / "b") == ["file.txt"]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    """ENOSPC is simulated at fsync; tests/cli/test_compress_disk.py fills a real disk where mounting is allowed."""
    path = tmp_path / "file.txt"
    write_text(path, "old")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(RunError, match=r"the disk is full: .*file.txt could not be written"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_an_interrupt_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match=r"file/inner.txt cannot be written \(.*\); choose another place"):
        write_text(tmp_path / "file" / "inner.txt", "x")
    with pytest.raises(RunError, match=r"cannot be written"):
        write_text(tmp_path, "x")
    assert names(tmp_path) == ["file"]


def test_a_folder_appears_when_it_is_whole_and_replaces_the_old_one(tmp_path):
    for content in ("old", "new"):
        with whole_folder(tmp_path / "model") as part:
            (part / "inner").mkdir()
            (part / "inner" / f"{content}.txt").write_text(content)
            assert not (tmp_path / "model" / "inner" / "new.txt").exists()
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model" / "inner") == ["new.txt"]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "full"), RuntimeError("No space left on device"), ValueError()]
)
def test_a_folder_that_fails_half_way_leaves_the_old_one(tmp_path, error):
    with whole_folder(tmp_path / "model") as part:
        (part / "old").touch()

    def fill():
        with whole_folder(tmp_path / "model") as part:
            (part / "new").touch()
            raise error

    with pytest.raises(ValueError if isinstance(error, ValueError) else RunError):
        fill()
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["old"]


def test_a_folder_whose_last_rename_fails_leaves_the_old_one(tmp_path, monkeypatch):
    with whole_folder(tmp_path / "model") as part:
        (part / "old").touch()
    rename, calls = os.replace, []

    def second_fails(source, target):
        calls.append(target)
        if len(calls) == 2:
            raise OSError(errno.EIO, "input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "replace", second_fails)
    with pytest.raises(OSError, match="input/output"), whole_folder(tmp_path / "model") as part:
        (part / "new").touch()
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["old"]


def test_sweeping_removes_leftovers_at_any_depth_and_nothing_else(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / ".config.toml.x1.part").write_text("half")
    (tmp_path / ".model.x2.part").mkdir()
    (tmp_path / ".model.x2.part" / "weights").write_text("half")
    kept = ["deep/keep.part", "deep/.hidden", "deep/.partial"]
    for name in kept:
        (tmp_path / name).write_text("kept")
    sweep_leftovers(tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == sorted(["deep", *kept])
    shutil.rmtree(tmp_path / "deep")
    sweep_leftovers(tmp_path / "deep")
