import csv
import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plankwise.data import pieces, quotes
from plankwise.data.pieces import Layout, Piece
from plankwise.data.quotes import LineCount, Tally, compare_lines, count_quotes_and_lines
from plankwise.data.tables import read_table

one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
cells = st.lists(st.tuples(st.text(st.sampled_from('ab ,"\n'), max_size=8), st.sampled_from("01")), min_size=1)


def notes_of(path, text, **layout):
    """What is said of a file, and how many rows it has."""
    path.write_text(text, "utf-8", newline="")
    tally = Tally()
    table = read_table(path, ("text", "label"), Layout(**layout), key="task.train", tell=tally.add)
    return tally.notes, table.num_rows


def stray_lines(count=100):
    """A tsv in which a text of twenty begins with a quote, and another, eight lines below, has one: both part of the text."""
    marks = {3: '"', 11: 'said "'}
    return "text\tlabel\n" + "".join(f"{marks.get(row % 20, '')}text {row}\t{row % 2}\n" for row in range(count))


def test_rows_that_stray_quotes_have_joined_are_counted_and_the_key_is_named(tmp_path):
    (note,), rows = notes_of(tmp_path / "a.tsv", stray_lines())
    assert rows == 60
    assert note == (
        "a.tsv: 100 lines became 60 rows, since quoted fields go on over several lines, and these lines look like rows of "
        "their own, joined by stray quotes; set task.quoting = false"
    )


def test_without_quoting_each_line_is_a_row_and_nothing_is_said(tmp_path):
    assert notes_of(tmp_path / "a.tsv", stray_lines(), quoting=False) == ((), 100)


def test_texts_with_line_breaks_are_counted_without_the_alarm(tmp_path):
    texts = [f"first line {row}\n\nthen, after a gap, the second" for row in range(20)]
    (note,), rows = notes_of(tmp_path / "a.csv", "text,label\n" + "".join(f'"{text}",1\n' for text in texts))
    assert rows == 20
    assert note == (
        "a.csv: 40 lines became 20 rows, since quoted fields go on over several lines; "
        "set task.quoting = false if quotes are part of the text"
    )


def test_quotes_on_one_line_and_empty_lines_are_not_mentioned(tmp_path):
    assert notes_of(tmp_path / "a.csv", 'text,label\r\n\r\n"good, really",1\r\n\r\n5" wide,0\r\n') == ((), 2)


def test_a_user_who_cannot_change_it_is_not_told(tmp_path):
    assert notes_of(tmp_path / "a.tsv", stray_lines(), keys="none") == ((), 60)
    assert "set --no-quoting" in notes_of(tmp_path / "a.tsv", stray_lines(), keys="flags")[0][0]


def test_without_anyone_to_tell_it_is_logged(tmp_path, caplog):
    (tmp_path / "a.tsv").write_text(stray_lines())
    read_table(tmp_path / "a.tsv", ("text", "label"), Layout(), key="task.train")
    assert "a.tsv: 100 lines became 60 rows" in caplog.text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("block", [1, 7, 1 << 18])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_in_any_encoding_and_across_blocks(tmp_path, monkeypatch, encoding, block, end):
    monkeypatch.setattr(quotes, "COUNTED_BYTES", block)
    text = end.join(["text,label", "", 'a "é"', "", "", "b", "c", 'd"'])
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    layout = Layout(encoding=encoding.removesuffix("-sig"))
    for tail in (b"", end.encode(layout.encoding).removeprefix(b"\xff\xfe")):
        (tmp_path / "a.csv").write_bytes(text.encode(encoding) + tail)
        assert count_quotes_and_lines(Piece(tmp_path / "a.csv", layout)) == (3, 5)


@one_folder
@given(cells)
def test_a_note_is_given_exactly_if_lines_and_rows_differ(tmp_path, rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("text", "label"), *rows])
    notes, count = notes_of(tmp_path / "a.csv", text.getvalue())
    assert count == len(rows)
    lines = sum(bool(line) for line in text.getvalue().splitlines()) - 1
    assert len(notes) == (lines != len(rows))


def test_pieces_of_a_file_are_one_file(tmp_path):
    tally, piece = Tally(), Piece(tmp_path / "a.csv")
    for count in (LineCount(piece, 10, 10), LineCount(piece, 10, 5, 5, 1), LineCount(piece, 10, 4, 2, 1)):
        tally.add(count)
    assert [note.partition(",")[0] for note in tally.notes] == ["a.csv: 30 lines became 19 rows"]


def test_only_some_rows_are_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(quotes, "LOOKED_AT", 2)
    (tmp_path / "a.tsv").write_text(stray_lines())
    count = compare_lines(Piece(tmp_path / "a.tsv"), 101, 60, 2)
    assert (count.looked_at, count.stray) == (2, 2)


def test_a_look_that_python_cannot_finish_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "BLOCK_BYTES", 8)  # Python then refuses a field that is longer
    (tmp_path / "a.csv").write_text('text,label\n"a\nlonger than that",1\n')
    assert compare_lines(Piece(tmp_path / "a.csv"), 3, 1, 2).note is not None
