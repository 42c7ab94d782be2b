import csv
import io
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plankwise.data import corpus, pieces
from plankwise.data.corpus import find_shards, held_out, read_shard, shuffled
from plankwise.errors import DataError

LINES = st.lists(st.text(st.sampled_from('ab ü"漢,\t\r\u2028\x0b'), max_size=12), min_size=1, max_size=30)
CELLS = st.lists(st.text(st.sampled_from('ab ü"漢,\n\t'), max_size=12), min_size=1, max_size=30)
one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def small(monkeypatch):
    """Sets how long a shard is, and reads in blocks shorter than some lines."""

    def set_size(size: int) -> None:
        monkeypatch.setattr(corpus, "SHARD_BYTES", size)
        monkeypatch.setattr(corpus, "SCAN_BYTES", 7)
        monkeypatch.setattr(pieces, "SCAN_BYTES", 7)

    return set_size


def find(path, *, unit="line", column=None, encoding="utf-8"):
    return find_shards(str(path), unit=unit, column=column, encoding=encoding, key="task.path")


def texts(path, **options):
    return [text for shard in find(path, **options) for text in read_shard(shard)]


def filled(values):
    return [value.strip() for value in values if value.strip()]


def refuse(path, *, wanted, **options):
    with pytest.raises(DataError, match=wanted) as caught:
        texts(path, **options)
    assert "\n" not in str(caught.value)


@one_folder
@given(LINES, st.integers(1, 60), st.booleans())
def test_every_line_of_a_text_is_in_exactly_one_shard(tmp_path, small, lines, size, ended):
    small(size)
    path = tmp_path / "a.txt"
    path.write_bytes(("\n".join(lines) + "\n" * ended or "\n").encode())
    assert texts(path) == filled("\n".join(lines).split("\n"))


@one_folder
@given(CELLS, st.integers(1, 60), st.sampled_from(["csv", "tsv"]), st.sampled_from(["\n", "\r\n"]))
def test_every_row_of_a_table_is_in_exactly_one_shard_with_its_quoted_line_ends(
    tmp_path, small, cells, size, ending, line_end
):
    small(size)
    path, written = tmp_path / f"a.{ending}", io.StringIO()
    rows = csv.writer(written, delimiter={"csv": ",", "tsv": "\t"}[ending], lineterminator=line_end)
    rows.writerows([["number", 'the "text"'], *enumerate(cells)])
    path.write_text(written.getvalue(), "utf-8", newline="")
    assert texts(path, column='the "text"') == filled(cells)


@one_folder
@given(CELLS, st.integers(1, 60))
def test_every_row_of_jsonl_and_of_parquet_is_in_exactly_one_shard(tmp_path, small, cells, size):
    small(size)
    lines = [json.dumps({"text": cell}) for cell in cells]
    (tmp_path / "a.jsonl").write_text("\n\n".join(lines), "utf-8")
    pa.parquet.write_table(pa.table({"text": cells, "n": range(len(cells))}), tmp_path / "b.parquet", row_group_size=2)
    assert texts(tmp_path / "a.jsonl", column="text") == filled(cells)
    assert texts(tmp_path / "b.parquet", column="text") == filled(cells)


@pytest.mark.parametrize("size", [91, 100, 105])
def test_a_shard_ends_with_the_line_that_fills_it(tmp_path, small, size):
    small(size)
    lines = b"".join(b"%04d of a text\n" % number for number in range(200))
    (tmp_path / "a.txt").write_bytes(lines)
    (tmp_path / "a.csv").write_bytes(b"x\n" + lines)
    for shards in (find(tmp_path / "a.txt"), find(tmp_path / "a.csv", column="x")):
        assert {shard.piece.end - shard.piece.start for shard in shards[:-1]} == {105}


def test_row_groups_are_gathered_up_to_the_size_of_a_shard(tmp_path, small):
    table = pa.table({"before": [{"inner": "y" * 90}] * 20, "text": [f"{number:040}" for number in range(20)]})
    pa.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=1, use_dictionary=False)
    of_one = pa.parquet.read_metadata(tmp_path / "a.parquet").row_group(0).column(1).total_uncompressed_size
    small(of_one + 1)
    assert [shard.piece.end - shard.piece.start for shard in find(tmp_path / "a.parquet", column="text")] == [2] * 10
    small(10**6)
    assert [shard.piece.end for shard in find(tmp_path / "a.parquet", column="text")] == [20]


def test_a_file_as_a_unit_is_one_document(tmp_path, small):
    small(2)
    (tmp_path / "a.txt").write_text(" one\ntwo\n\nthree \n")
    (tmp_path / "b.txt").write_text("\n \n")
    assert texts(tmp_path, unit="file") == ["one\ntwo\n\nthree"]


def test_a_folder_gives_its_files_of_known_endings_in_order(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ("b.txt", "A.TXT", "deep/c.raw", "notes.doc", ".hidden.txt", ".git/d.txt", "empty.txt", "none.jsonl"):
        (tmp_path / name).write_text(name if "e" not in name.split(".")[0] or "/" in name else "")
    (tmp_path / "z.jsonl").write_text('{"text": "row", "n": 1}\n{"text": null}\n{"text": ""}')
    assert texts(tmp_path, column="text") == ["A.TXT", "b.txt", "deep/c.raw", "row"]


def test_a_file_of_another_ending_is_plain_text(tmp_path):
    (tmp_path / "log").write_text("one\ntwo")
    assert texts(tmp_path / "log") == ["one", "two"]


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl"])
def test_a_byte_order_mark_is_not_text(tmp_path, name):
    content = {"a.txt": "ä", "a.csv": "text\nä", "a.jsonl": '{"text": "ä"}'}[name]
    (tmp_path / name).write_text(content, "utf-8-sig")
    for encoding in ("utf-8", "utf-8-sig"):
        assert texts(tmp_path / name, column=None if name == "a.txt" else "text", encoding=encoding) == ["ä"]


def test_other_encodings_that_extend_ascii_are_read(tmp_path):
    (tmp_path / "a.txt").write_bytes("größer\nals\n".encode("latin-1"))
    (tmp_path / "b.csv").write_bytes("text\ngrößer\n".encode("latin-1"))
    assert texts(tmp_path, column="text", encoding="latin-1") == ["größer", "als", "größer"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-le", "cp500"])
def test_encodings_whose_line_ends_are_not_asciis_are_refused(tmp_path, encoding):
    (tmp_path / "a.txt").write_text("one", encoding)
    refuse(tmp_path, encoding=encoding, wanted=rf"task.encoding is '{encoding}', .*; convert the files to utf-8")


def test_a_byte_of_another_encoding_is_named_with_its_line(tmp_path, small):
    small(10)
    wanted = r"^a\.{} line 31: byte 0xfc at offset 152 is not utf-8; set task.encoding"
    (tmp_path / "a.txt").write_bytes(b"text\n" * 30 + b"fr\xfch\n")
    refuse(tmp_path / "a.txt", wanted=wanted.format("txt"))
    (tmp_path / "a.csv").write_bytes(b"text\n" * 30 + b"fr\xfch\n")
    refuse(tmp_path / "a.csv", column="text", wanted=wanted.format("csv"))


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ('{"text": 1}', "'text' is 1, not text; write all values of a column alike"),
        ('{"other": "x"}', "no 'text', only other; write it on each line"),
        ("{}", "no 'text', only an empty object"),
        ('["text"]', "not an object; write"),
        ('{"text": ', "not JSON, .*; write one object on each line"),
        (r'{"text": "\ud83d"}', "'text' has half of a character"),
    ],
)
def test_a_json_line_without_text_is_named(tmp_path, small, line, wanted):
    small(30)
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n' * 20 + line)
    refuse(tmp_path, column="text", wanted=rf"^a\.jsonl line 21: {wanted}")


def test_a_row_with_too_many_fields_is_named(tmp_path, small):
    small(20)
    (tmp_path / "a.csv").write_text("text,n\n" + "fine,1\n" * 20 + "one,two,three\n")
    refuse(tmp_path, column="text", wanted=r"^a\.csv line 22: 3 columns where the first line has 2; fix the separators")


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ('text\nfine\n"never closed\nfine\n', "line 3: a quoted field that begins here is never closed"),
        ('"text\nfine\n', "line 1: a quoted field that begins here is never closed"),
        ('text\n5" wide\nfine\n', "odd number of double quotes, .*; double"),
    ],
)
def test_a_quote_that_is_never_closed_is_an_error(tmp_path, content, wanted):
    (tmp_path / "a.csv").write_text(content)
    refuse(tmp_path, column="text", wanted=wanted)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_table_needs_the_name_of_one_of_its_columns(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        pa.parquet.write_table(pa.table({"text": ["x"], "number": [1]}), path)
        refuse(path, column="number", wanted="column 'number' has the type int64; give a column of text in task.column")
    else:
        path.write_text({"csv": "text,number\nx,1", "jsonl": '{"text": "x", "number": 1}'}[ending])
    refuse(path, wanted=rf"^a.{ending} has columns; set task.column to the one with the text: text, number")
    refuse(
        path,
        column="txt",
        wanted=rf"^a.{ending}, column 'txt': .*Did you mean 'text'\? Known: number, text; set task.col",
    )


def test_two_columns_of_one_name_are_an_error(tmp_path):
    (tmp_path / "a.csv").write_text("text,text\nx,y\n")
    refuse(tmp_path, column="text", wanted="2 columns named 'text'; rename all but one")


def test_a_column_for_plain_text_alone_is_an_error(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    refuse(tmp_path, column="text", wanted="task.column is 'text', but task.path is .*; take task.column out")
    (tmp_path / "b.csv").write_text("text\ny")
    assert texts(tmp_path, column="text") == ["x", "y"]


def test_places_with_nothing_to_read_are_named(tmp_path):
    refuse(tmp_path / "gone", wanted="task.path is '.*gone'; there is no such file or folder")
    refuse(tmp_path, wanted="which has no file that ends in .txt, .raw, .csv, .tsv, .jsonl, .parquet; add one")
    (tmp_path / "a.txt").touch()
    (tmp_path / "b.csv").write_text("text\n")
    (tmp_path / "c.jsonl").write_text("\n\n")
    pa.parquet.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "d.parquet")
    refuse(tmp_path, column="text", wanted="in which there is nothing to read; give a file with at least one text")


def test_a_broken_parquet_file_and_one_that_is_gone_are_named(tmp_path):
    (tmp_path / "a.parquet").write_text("no parquet at all")
    refuse(tmp_path, column="text", wanted="a.parquet cannot be read as parquet: .*; write the file again")
    (tmp_path / "b.txt").write_text("x")
    shard = find(tmp_path / "b.txt")[0]
    (tmp_path / "b.txt").unlink()
    with pytest.raises(DataError, match=r"b.txt cannot be read: .*; check the file"):
        read_shard(shard)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats(0, 1), st.floats(0, 1), st.integers(0, 2**64))
def test_a_larger_share_holds_out_all_that_a_smaller_one_does(text, one, other, seed):
    low, high = sorted((one, other))
    assert held_out(text, low, seed) <= held_out(text, high, seed)
    assert not held_out(text, 0.0, seed)
    assert held_out(text, 1.0, seed)


def test_the_share_held_out_is_the_share_asked_for_and_follows_the_seed():
    chosen = np.array([[held_out(f"text {number}", 0.25, seed) for number in range(4000)] for seed in (0, 1)])
    assert np.all(np.abs(chosen.mean(axis=1) - 0.25) < 0.03)
    assert abs((chosen[0] & chosen[1]).mean() - 0.0625) < 0.02


def test_the_order_of_shards_follows_the_seed_and_loses_none(tmp_path, small):
    small(10)
    (tmp_path / "a.txt").write_text("".join(f"line {number}\n" for number in range(100)))
    shards = find(tmp_path)
    assert shuffled(shards, 0) == shuffled(shards, 0)
    assert len({tuple(order) for order in (shards, shuffled(shards, 0), shuffled(shards, 1))}) == 3
    assert {replace(shard, order=None) for shard in shuffled(shards, 0)} == set(shards)
    assert len(shuffled(shards, 0)) == len(shards)


def test_a_shuffled_shard_has_the_same_documents_in_an_order_that_follows_the_seed(tmp_path):
    lines = [f"line {number}" for number in range(100)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    first, again, other = (read_shard(shuffled(find(tmp_path), seed)[0]) for seed in (0, 0, 1))
    assert first == again
    assert sorted(first) == sorted(lines)
    assert len({tuple(order) for order in (lines, first, other)}) == 3


@pytest.mark.parametrize("size", [5, 1000])
def test_without_quoting_quotes_are_part_of_the_text(tmp_path, small, size):
    small(size)
    (tmp_path / "a.tsv").write_text('text\tn\n"open\t1\nclose "here\t2\nlast\t3\n')
    shards = find_shards(str(tmp_path), unit="line", column="text", quoting=False, key="task.path")
    assert [text for shard in shards for text in read_shard(shard)] == ['"open', 'close "here', "last"]
