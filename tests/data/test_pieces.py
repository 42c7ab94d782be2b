import pytest

from plankwise.data.pieces import Layout, Piece, find_body, json_lines, name_line, records


@pytest.mark.parametrize("head", ["a,b\n", "a,b\r\n", '"a\nb",c\n', "\n\na\n", "\ufeffa,b\n", 'ä,"5"" wide"\n'])
def test_the_body_begins_behind_the_header(tmp_path, head):
    (tmp_path / "a.csv").write_text(head + "1,2\n", "utf-8", newline="")
    assert find_body(Piece(tmp_path / "a.csv")) == len(head.encode())


def test_a_line_is_counted_from_the_beginning_of_the_file(tmp_path):
    (tmp_path / "a.csv").write_text("x\n\na\nb\n")
    piece = Piece(tmp_path / "a.csv", start=3, end=7)
    assert [(name_line(piece, line), fields) for line, fields in records(piece)] == [
        ("a.csv line 3", ["a"]),
        ("a.csv line 4", ["b"]),
    ]


def test_only_a_line_feed_ends_a_line_of_json(tmp_path):
    (tmp_path / "a.jsonl").write_bytes('{"a":\r1}\r\n\n{"b": "\u2028"}'.encode())
    assert list(json_lines(Piece(tmp_path / "a.jsonl"))) == [(0, {"a": 1}), (2, {"b": "\u2028"})]


def test_the_format_follows_the_ending_unless_a_separator_is_given(tmp_path):
    forms = {"a.CSV": "separated", "a.tsv": "separated", "a.jsonl": "jsonl", "a.parquet": "parquet", "a.txt": None}
    assert {name: Piece(tmp_path / name).form for name in forms} == forms
    assert Piece(tmp_path / "a.txt", Layout("|")).form == "separated"
