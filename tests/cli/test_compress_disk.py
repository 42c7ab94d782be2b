"""A real disk that is full: a tmpfs of a few hundred kilobytes, where this machine lets us mount one."""

import subprocess

import pytest


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options: str) -> bool:
        return (
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True).returncode
            == 0
        )

    try:
        mounted = mount("size=300k")
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("mounting is not allowed here; tests/test_files.py simulates a full disk")
    yield folder, lambda: mount("remount,size=50m")
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_one_sentence_and_the_run_goes_on_once_there_is_space(command, recipe, small_disk):
    disk, enlarge = small_disk
    arguments = ["compress", recipe, f"run.folder={disk}/run", "evaluation.truncated=false"]
    result = command(*arguments)
    assert result.code == 2
    assert result.err.startswith("plankwise: the disk is full: ")
    assert "free some space and run the same command again" in result.err
    assert result.err.count("\n") == 1
    assert not list(disk.rglob(".*.part"))
    assert enlarge()
    assert command(*arguments).code == 0
    assert (disk / "run" / "successor" / "model.safetensors").is_file()
