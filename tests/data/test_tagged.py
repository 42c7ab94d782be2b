import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plankwise.data.tagged import Tagged, read_tagged
from plankwise.errors import DataError

EXPECTED = [Tagged(("Ann", "sleeps"), ("B-PER", "O")), Tagged(("Ships",), ("O",))]


def read(path, tags="tags", names=None, **options):
    return read_tagged(str(path), "words", tags, names, key="task.train", **options)


@pytest.mark.parametrize(
    "text",
    [
        "Ann\tB-PER\nsleeps\tO\n\nShips\tO\n",
        "Ann\tB-PER\r\nsleeps\tO\r\n\t\r\nShips\tO",  # a line of a tab alone is empty, too
        "-DOCSTART- -X- O\n\nAnn NNP B-PER\nsleeps VBZ O\n\n\n# text = Ships\nShips NNS O\n",
    ],
)
def test_the_first_field_of_a_line_is_the_word_and_the_last_its_tag(text, tmp_path):
    (tmp_path / "a.conll").write_bytes(text.encode())
    assert read(tmp_path / "a.conll") == EXPECTED


def test_a_word_may_begin_with_a_hash(tmp_path):
    (tmp_path / "a.txt").write_text("see\tO\n#\tO\n# 1\tO\n")
    assert read(tmp_path / "a.txt")[0].words == ("see", "#", "# 1")


def test_lists_in_jsonl_and_parquet_are_read_by_their_columns_and_numbers_by_names(tmp_path):
    rows = [{"words": list(one.words), "tags": list(one.tags)} for one in EXPECTED]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert read(tmp_path / "a.jsonl") == EXPECTED
    numbers = [[["O", "B-PER"].index(tag) for tag in one.tags] for one in EXPECTED]
    pq.write_table(pa.table({"words": [row["words"] for row in rows], "tags": numbers}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", names=["O", "B-PER"]) == EXPECTED
    assert [one.tags for one in read(tmp_path / "a.parquet", tags=None)] == [(), ()]
    with pytest.raises(DataError, match=r"a\.parquet row 1: tag 1 is not a name; .* task\.labels"):
        read(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.conll", "Ann\tO\nsleeps\n", r"a\.conll line 2: 'sleeps' has no tag"),
        ("a.conll", "\n\n", "has no texts"),
        ("a.jsonl", '{"words": ["a", "b"], "tags": ["O"]}', "line 1 has 2 words and 1 tags"),
        ("a.jsonl", '{"tokens": ["a"], "tags": ["O"]}', r"no list 'words'; .* task\.words"),
        ("a.jsonl", "Ann", "line 1 is not JSON"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(name, text, reason, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=reason):
        read(tmp_path / name)


def test_a_file_that_is_not_there_or_not_utf8_is_named(tmp_path):
    with pytest.raises(DataError, match=r"task\.train is '.*none'; there is no such file"):
        read(tmp_path / "none")
    (tmp_path / "a.conll").write_bytes("Zoë\tO\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"cannot be read as utf-8 .* task\.encoding"):
        read(tmp_path / "a.conll")
    assert read(tmp_path / "a.conll", encoding="latin-1")[0].words == ("Zoë",)
