import json

import pytest

from plankwise.data.retrieval import read_retrieval, read_similarities
from plankwise.errors import DataError


@pytest.fixture
def beir(tmp_path):
    """A folder in BEIR's layout, with the lines of qrels that are given."""

    def write(*qrels):
        documents = [{"_id": "a", "title": "Film", "text": "a film"}, {"_id": "b", "text": "a plot"}]
        queries = [{"_id": "1", "text": "what film"}, {"_id": "2", "text": "who"}, {"_id": "3", "text": "which plot"}]
        (tmp_path / "qrels").mkdir(exist_ok=True)
        for name, rows in {"corpus": documents, "queries": queries}.items():
            (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", "utf-8")
        (tmp_path / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *qrels]), "utf-8")
        return str(tmp_path)

    return write


def test_queries_that_have_an_answer_come_with_its_documents(beir):
    found = read_retrieval(beir("1\ta\t2", "3\tb\t1", "3\ta\t0", "2\ta\t0"), "test", "task.retrieval")
    assert found.queries == ["what film", "which plot"]
    assert found.corpus == ["Film a film", "a plot"]
    assert found.relevant == [{0: 2.0}, {1: 1.0}]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1\tz\t1", "line 2 .* no document 'z'"),
        ("9\ta\t1", "no query '9'"),
        ("1\ta", "a query, a document and a number"),
    ],
)
def test_a_line_that_cannot_be_judged_is_named(line, reason, beir):
    with pytest.raises(DataError, match=reason):
        read_retrieval(beir(line), "test", "task.retrieval")


def test_a_folder_without_a_file_says_which(beir):
    with pytest.raises(DataError, match=r"has no qrels.dev\.tsv; give a folder in BEIR's layout"):
        read_retrieval(beir("1\ta\t1"), "dev", "task.retrieval")


def test_pairs_of_sentences_are_read_file_by_file_each_text_once(tmp_path):
    (tmp_path / "b.tsv").write_text("5\ta film\ta plot\n0\ta film\tit's \"dull\n", "utf-8")
    (tmp_path / "a.tsv").write_text("1.5\ta plot\ta plot\n2\tan end\ta film\n", "utf-8")
    found = read_similarities(str(tmp_path), "task.sts")
    assert found.texts == ["a plot", "an end", "a film", "it's \"dull"]
    assert list(found.files) == ["a", "b"]
    pairs, scores = found.files["b"]
    assert (pairs.tolist(), scores.tolist()) == ([[2, 0], [2, 3]], [5, 0])


def test_a_line_that_is_not_a_pair_is_named(tmp_path):
    (tmp_path / "a.tsv").write_text("5\ta\tb\n\nlabel\tc\td\n", "utf-8")
    with pytest.raises(DataError, match=r"a\.tsv line 3 of task\.sts: a line is a score"):
        read_similarities(str(tmp_path / "a.tsv"), "task.sts")
    with pytest.raises(DataError, match="give a tsv file"):
        read_similarities(str(tmp_path / "none"), "task.sts")
