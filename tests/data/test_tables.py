import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plankwise.data import pieces
from plankwise.data.formats import place
from plankwise.data.pieces import Layout
from plankwise.data.tables import encode_classes, encode_numbers, listed, read_table
from plankwise.errors import DataError


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path, columns=("text", "label"), **layout):
    return read_table(path, columns, Layout(**layout), key="task.train")


EXPECTED = {"text": ["good, really", "bad"], "label": ["1", "0"]}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'text,label\n"good, really",1\nbad,0\n'),
        ("a.csv", '\ufefftext,label\r\n"good, really",1\r\n\r\nbad,0'),
        ("a.CSV", 'other,label,text\n7,1,"good, really"\n8,0,bad\n'),
        ("a.tsv", "text\tlabel\ngood, really\t1\nbad\t0\n"),
        ("a.jsonl", '{"text": "good, really", "label": 1}\n\n{"label": 0, "text": "bad", "more": []}\n'),
        ("a.jsonl", '{"text": "good, really", "label": "1"}\n{"label": "0", "text": "bad"}'),
    ],
)
def test_the_same_rows_come_out_of_every_text_format(tmp_path, name, content):
    assert read(write(tmp_path / name, content)).to_pydict() == EXPECTED


@pytest.mark.parametrize("label_type", [pa.string(), pa.int64(), pa.float64(), pa.dictionary(pa.int8(), pa.string())])
def test_parquet_labels_of_any_type_become_text(tmp_path, label_type):
    values = [1, 0] if label_type in (pa.int64(), pa.float64()) else ["1", "0"]
    table = pa.table({"text": EXPECTED["text"], "label": pa.array(values, label_type), "x": [1, 2]})
    pq.write_table(table, tmp_path / "a.parquet")
    read_back = read(tmp_path / "a.parquet")
    assert read_back.to_pydict() == EXPECTED
    assert read_back.schema.types == [pa.string(), pa.string()]


def test_columns_are_numbered_without_a_header(tmp_path):
    path = write(tmp_path / "a.tsv", "x\t1\ty\nz\t0\tw\n")
    assert read(path, ("2", "1"), header=False).to_pydict() == {"2": ["y", "w"], "1": ["1", "0"]}


def test_words_for_missing_values_stay_words(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\nNA,null\n"",nan\n')
    assert read(path).to_pydict() == {"text": ["NA", ""], "label": ["null", "nan"]}


def test_without_quoting_quotes_are_text(tmp_path):
    path = write(tmp_path / "a.tsv", 'text\tlabel\n"open\t1\nclose"\t0\n')
    assert read(path, quoting=False).to_pydict() == {"text": ['"open', 'close"'], "label": ["1", "0"]}


def test_quotes_inside_a_field_need_no_partner(tmp_path):
    assert read(write(tmp_path / "a.csv", 'text,label\n5" wide,1\n'))["text"].to_pylist() == ['5" wide']


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_another_encoding_can_be_set(tmp_path, name, encoding):
    content = 'text,label\ncafé "x",1\n' if name == "a.csv" else '{"text": "café \\"x\\"", "label": 1}\n'
    path = write(tmp_path / name, content.encode(encoding))
    assert read(path, encoding=encoding).to_pydict() == {"text": ['café "x"'], "label": ["1"]}


def test_a_field_longer_than_pythons_limit_is_read_and_placed(tmp_path):
    path = write(tmp_path / "a.csv", f'text,label\n"{"x" * 300_000}",1\nb,0\n')
    assert read(path)["text"].to_pylist()[0] == "x" * 300_000
    assert place(path, 1, Layout()) == "a.csv line 3"


def test_fields_of_several_lines_survive_the_borders_of_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "BLOCK_BYTES", 64)
    texts = [f"first line {row}\n" * 2 for row in range(50)]
    path = write(tmp_path / "a.csv", "text,label\n" + "".join(f'"{text}",1\n' for text in texts))
    assert read(path)["text"].to_pylist() == texts


def test_a_separator_makes_any_ending_readable(tmp_path):
    assert read(write(tmp_path / "a.txt", "text|label\nbad|0\n"), separator="|").to_pydict() == {
        "text": ["bad"],
        "label": ["0"],
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "a.csv has no rows"),
        ("a.csv", "\n\n", "a.csv has no rows"),
        ("a.csv", "text,label", "a.csv has no rows"),
        ("a.csv", "text,label\n", "a.csv has no rows"),
        ("a.jsonl", "\n", "a.jsonl has no rows"),
        (
            "a.csv",
            "text,lable\na,1\n",
            "column 'label': there is no such column. Did you mean 'lable'.*Known: lable, text",
        ),
        ("a.jsonl", '{"text": "a", "lable": 1}', "'label': there is no such column. Did you mean 'lable'"),
        ("a.csv", "text,label,label\na,1,2\n", "a.csv has 2 columns named 'label'"),
        ("a.csv", 'text,label\n"a\nb",1\nc\n', "a.csv line 4: 1 columns where the first line has 2"),
        ("a.csv", "text,label\n\na,1,2\n", "a.csv line 3: 3 columns where the first line has 2"),
        ("a.csv", 'text,label\na,1\nb,"0\nc,1\n', "a.csv line 3: a quoted field that begins here is never closed"),
        ("a.csv", 'text,label\na,1\n"b,0\nc,1\n', "a.csv line 3: a quoted field that begins here is never closed"),
        ("a.csv", b"text,label\na,1\ncaf\xe9,0\n", "a.csv line 3: byte 0xe9 at offset 18 is not utf-8; set task.enc"),
        ("a.csv", b"t\xe9xt,label\na,1\n", "a.csv line 1: byte 0xe9"),
        ("a.jsonl", b'{"text": "a", "label": 1}\n{"text": "\xe9", "label": 1}', "a.jsonl line 2: byte 0xe9"),
        ("a.jsonl", '{"text": "a", "label": 1}\n\n{"text": "a"', "a.jsonl line 3: not JSON"),
        ("a.jsonl", "[1, 2]\n", "a.jsonl line 1: not an object"),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text": "a", "label": "x"}',
            "a.jsonl line 2: 'label' is 'x', not a number; write",
        ),
        ("a.jsonl", '{"text": ["a"], "label": 1}\n', "a.jsonl line 1: 'text' is a list"),
        ("a.parquet", "text,label\n", "a.parquet cannot be read as parquet"),
        ("a.xlsx", "text,label\n", r"ending is not one of .csv, .tsv, .jsonl and .parquet.*task.separator"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        read(write(tmp_path / name, content))


def test_an_encoding_error_far_into_a_file_is_placed(tmp_path):
    good, bad = b'{"text": "\xc3\xa9", "label": 1}\n' * 100_000, b'{"text": "\xff", "label": 1}'
    path = write(tmp_path / "a.jsonl", good + bad)
    with pytest.raises(DataError, match=f"line 100001: byte 0xff at offset {len(good) + bad.index(0xFF)} is not utf-8"):
        read(path)


def test_missing_files_and_folders_name_the_key(tmp_path):
    with pytest.raises(DataError, match=r"task.train is '.*none.csv'; there is no such file"):
        read(tmp_path / "none.csv")
    with pytest.raises(DataError, match="that is a folder, not a file"):
        read(tmp_path)


def test_a_numbered_column_that_is_absent_says_why_columns_are_numbered(tmp_path):
    with pytest.raises(DataError, match=r"Known: 0, 1; columns are numbered because of task.header = false"):
        read(write(tmp_path / "a.csv", "a,1\n"), ("text",), header=False)


def test_a_parquet_column_of_lists_is_refused(tmp_path):
    pq.write_table(pa.table({"text": [["a"]], "label": [1]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="column 'text' has the type list"):
        read(tmp_path / "a.parquet")


def test_ragged_lines_are_left_out_on_request_and_lines_stay_right(tmp_path, caplog):
    path = write(tmp_path / "a.tsv", "text\tlabel\na\t1\nbroken\nb\tx\n")
    layout = Layout(quoting=False, skip_ragged=True)
    table = read_table(path, ("text", "label"), layout, key="task.train")
    assert table["text"].to_pylist() == ["a", "b"]
    assert "left out 1 malformed lines" in caplog.text
    assert place(path, 1, layout) == "a.tsv line 4"


def test_classes_become_their_index_and_numbers_floats(tmp_path):
    labels = pa.chunked_array([["b", "a"], ["b"]])
    assert encode_classes(labels, ("a", "b"), "", tmp_path, Layout()).to_pylist() == [1, 0, 1]
    numbers = pa.chunked_array([[" 1.5", "-2e1"]])
    assert encode_numbers(numbers, tmp_path, Layout()).to_pylist() == [1.5, -20.0]


def test_long_lists_are_cut_off():
    assert listed(["a", "b", "c"], most=2) == "a, b, … 3 in all"
    assert listed(["a", "b"], most=2) == "a, b"
