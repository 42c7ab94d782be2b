"""A disk that is full in the middle of a checkpoint, and one that cannot be written at all."""

import subprocess

import pytest

from outcomes import outcome
from workers import compress, compress_on_a_small_disk, start, wait

MOST = 100_000  # bytes: weights of the tiny successor fit, the optimiser's state does not


def test_a_disk_that_is_full_in_a_checkpoint_is_one_sentence_and_the_run_goes_on_once_there_is_space(
    quick_recipe, tmp_path
):
    pytest.importorskip("resource", reason="this system has no limits on files")
    whole = start(compress, quick_recipe, [f"run.folder={tmp_path / 'whole'}"])
    printed = tmp_path / "printed.txt"
    assert wait(start(compress_on_a_small_disk, quick_recipe, [], MOST, str(printed))) == 2
    last = printed.read_text().splitlines()[-1]
    assert last.startswith("plankwise: the disk is full: ")
    assert "optimiser.safetensors" in last
    assert last.endswith("run the same command again, it goes on from the last checkpoint")
    assert "Traceback" not in printed.read_text()
    assert not list((tmp_path / "run").rglob("*.part"))
    assert wait(start(compress, quick_recipe, [])) == 0
    assert wait(whole) == 0
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


@pytest.fixture
def read_only(tmp_path):
    folder = tmp_path / "fixed"
    folder.mkdir()

    def mount(*options: object) -> bool:
        try:
            return subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            return False

    if not mount("--bind", folder, folder):
        pytest.skip("mounting is not allowed here")
    try:
        if not mount("-o", "remount,ro,bind", folder):
            pytest.skip("a folder cannot be made read-only here")
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_output_that_is_read_only_is_one_sentence(command, quick_recipe, read_only):
    result = command("compress", quick_recipe, f"run.folder={read_only / 'run'}")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "cannot be written (Read-only file system); choose another run.folder" in result.err


def test_a_report_that_cannot_be_written_is_one_sentence(command, recipe, table_file, tmp_path, monkeypatch):
    result = command(
        "predict", tmp_path / "none", "--table", table_file, "--text", "sentence", "--out", table_file / "x"
    )
    assert (result.code, result.err.count("\n")) == (2, 1)
