import datetime
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plankwise.data.cells import read_cells, read_columns
from plankwise.data.pieces import Layout, Piece
from plankwise.errors import DataError


def read(path, **layout):
    piece = Piece(path, Layout(**layout))
    columns = read_columns(piece)
    return columns, list(read_cells(piece, columns))


def test_separated_cells_are_copied_as_they_are_with_equal_and_empty_names(tmp_path):
    (tmp_path / "a.csv").write_text(',text,x,x\n0,"a, ""b""\nc",007,NA\n\n1,d,,1.0\n')
    assert read(tmp_path / "a.csv") == (
        ["", "text", "x", "x"],
        [["0", 'a, "b"\nc', "007", "NA"], ["1", "d", "", "1.0"]],
    )


def test_without_a_header_columns_are_numbered_and_no_row_is_lost(tmp_path):
    (tmp_path / "a.txt").write_text('"a|1\nb|2\n')
    assert read(tmp_path / "a.txt", separator="|", header=False, quoting=False) == (
        ["0", "1"],
        [['"a', "1"], ["b", "2"]],
    )


def test_objects_with_other_keys_and_values_of_any_kind_become_cells(tmp_path):
    rows = [{"text": "a", "n": 1}, {"tags": ["é", {"k": None}], "text": "b"}, {"n": None, "ok": True, "text": "1"}]
    (tmp_path / "a.jsonl").write_text("\n\n".join(json.dumps(row) for row in rows))
    assert read(tmp_path / "a.jsonl") == (
        ["text", "n", "tags", "ok"],
        [["a", "1", "", ""], ["b", "", '["é", {"k": null}]', ""], ["1", "", "", "true"]],
    )


def test_parquet_values_of_any_type_become_cells(tmp_path, monkeypatch):
    monkeypatch.setattr("plankwise.data.cells.BATCH_ROWS", 1)
    table = {"text": ["a", None], "day": [datetime.date(2020, 1, 2), None], "x": [[1, 2], [0.5]], "n": [1.5, 2.0]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == (
        ["text", "day", "x", "n"],
        [["a", "2020-01-02", "[1.0, 2.0]", "1.5"], ["", "", "[0.5]", "2.0"]],
    )


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "a.jsonl").write_text("[1]")
    with pytest.raises(DataError, match=r"a.jsonl line 1: not an object"):
        read(tmp_path / "a.jsonl")
