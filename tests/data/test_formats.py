import gzip
import itertools
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plankwise.data import pieces
from plankwise.data.formats import place, read_batches, read_names, read_text
from plankwise.data.pieces import Layout, Piece
from plankwise.errors import DataError

ROWS = [("one\nof two lines", "1"), ("", "2"), ('say "so"', "3")]
CSV = 'text,label\n"one\nof two lines",1\n,2\n"say ""so""",3\n'


def read(piece, columns=("text", "label"), **options):
    batches = read_batches(piece, columns, **options)
    return [row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True)]


@pytest.fixture
def files(tmp_path):
    """The same rows in each format."""
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": t, "label": n}) + "\n\n" for t, n in ROWS))
    columns = dict(zip(("text", "label"), zip(*ROWS, strict=True), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=1)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "cuts"), [("a.csv", [0, 31, 34, len(CSV)]), ("a.jsonl", [0, 44, 45, None]), ("a.parquet", [0, 1, 2, 3])]
)
def test_pieces_give_together_what_the_whole_file_gives(files, name, cuts):
    path = files / name
    parts = [read(Piece(path, start=start, end=end)) for start, end in itertools.pairwise(cuts)]
    assert [row for part in parts for row in part] == read(Piece(path)) == ROWS
    assert read_names(Piece(path)) == ["text", "label"]
    assert read(Piece(path), ("label",)) == [(label,) for _, label in ROWS]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@pytest.mark.parametrize("blank", ["", "\n \n" * 9])
def test_a_piece_without_rows_gives_nothing(tmp_path, name, blank):
    head = "text,label\n" if name == "a.csv" else '{"text": "a", "label": "1"}\n'
    (tmp_path / name).write_text(head + blank.replace(" ", ""))
    size = (tmp_path / name).stat().st_size
    assert read(Piece(tmp_path / name, start=len(head), end=size), only_text=True) == []


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_byte_order_mark_is_not_part_of_the_first_column(files, name):
    marked = files / f"marked-{name}"
    marked.write_text((files / name).read_text(), "utf-8-sig")
    assert read(Piece(marked)) == ROWS


def test_an_archive_is_unpacked(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    assert read(Piece(tmp_path / "a.csv.gz", Layout(","))) == ROWS


def test_a_row_of_a_piece_with_an_end_may_be_longer_than_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "BLOCK_BYTES", 64)
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "x" * 500}))
    size = (tmp_path / "a.jsonl").stat().st_size
    assert read(Piece(tmp_path / "a.jsonl", end=size), ("text",), only_text=True) == [("x" * 500,)]


def test_a_quote_that_is_never_closed_is_found_without_reading_all_that_follows(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "BLOCK_BYTES", 64)
    (tmp_path / "a.csv").write_text('text,label\na,1\n"b,2\n' + "c,3\n" * 1000 + '"d",4\n')
    with pytest.raises(DataError, match=r"a.csv line 3: a quoted field that begins here is never closed"):
        read(Piece(tmp_path / "a.csv"))


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ("all", "set task.encoding to"),
        ("flags", "set --encoding to"),
        ("text", "set task.encoding to"),
        ("none", "fetch"),
    ],
)
def test_an_error_names_only_what_the_user_can_set(tmp_path, keys, wanted):
    (tmp_path / "a.csv").write_bytes(b"text\n\xff\n")
    with pytest.raises(DataError, match=f"is not utf-8; {wanted}"):
        read(Piece(tmp_path / "a.csv", Layout(keys=keys)), ("text",))
    (tmp_path / "a.csv").write_text("text\na,b\n")
    with pytest.raises(DataError, match="quotes") as caught:
        read(Piece(tmp_path / "a.csv", Layout(keys=keys)), ("text",))
    named = {"all": "task.quoting = false", "text": "task.quoting = false", "flags": "--no-quoting"}.get(keys)
    assert (named or "double each quote") in str(caught.value)
    assert ("quoting" in str(caught.value)) == (named is not None)


def test_text_is_read_as_it_is_written(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\rc\n")
    assert read_text(Piece(tmp_path / "a.txt")) == "a\r\nb\rc\n"
    assert read_text(Piece(tmp_path / "a.txt", start=6, end=8)) == "b\r"


def test_rows_are_placed_behind_fields_of_several_lines(tmp_path):
    (tmp_path / "a.csv").write_text('text,label\n"a\nb\nc",1\n\nd,0\n')
    assert [place(tmp_path / "a.csv", row, Layout()) for row in (0, 1)] == ["a.csv line 2", "a.csv line 6"]
    assert place(tmp_path / "a.csv", 0, Layout(header=False)) == "a.csv line 1"
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    assert place(tmp_path / "a.parquet", 0, Layout()) == "a.parquet row 1"
