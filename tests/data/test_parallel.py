"""Parallel texts: two files or a table, gzip or not, and what is wrong with them in a sentence."""

import gzip

import pytest

from plankwise.data.parallel import read_pairs
from plankwise.errors import DataError


def read(given, **more):
    return read_pairs(given, "source", "target", key="task.train", **more)


def test_two_files_are_read_line_by_line_packed_or_not(tmp_path):
    (tmp_path / "a.en").write_bytes(b"one\r\n\r\nthree\r\n")
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(b"eins\nzwei\n drei "))
    assert read([str(tmp_path / "a.en"), str(tmp_path / "a.de.gz")]) == ([("one", "eins"), ("three", "drei")], 1)


def test_a_table_has_a_column_for_either(tmp_path):
    (tmp_path / "a.csv").write_text('source,target\n"one, two",eins\n', "utf-8")
    assert read(str(tmp_path / "a.csv")) == ([("one, two", "eins")], 0)


def test_another_encoding_can_be_named(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes("Bär\n".encode("latin-1"))
    given = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert read(given, encoding="latin-1")[0] == [("Bär", "Bär")]
    with pytest.raises(DataError, match=r"a cannot be read as utf-8 .*set task.encoding, for example latin-1"):
        read(given)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"a": b"one\ntwo\n", "b": b"eins\n"},
            "has 2 lines and .* 1; line by line, one must be the other's translation",
        ),
        ({"a": b"one\n"}, "there is no such file: give a text file"),
        ({"a": b"\n", "b": b"eins\n"}, "has no texts; give at least one with its translation"),
        ({"a.gz": b"no gzip", "b": b"eins\n"}, "a.gz cannot be read as utf-8"),
    ],
)
def test_files_that_do_not_fit_are_named(files, said, tmp_path):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    first = next(iter(files))
    with pytest.raises(DataError, match=said):
        read([str(tmp_path / first), str(tmp_path / "b")])


def test_one_text_file_is_not_enough():
    with pytest.raises(DataError, match="one file that is no table; list two text files"):
        read("train.txt")
