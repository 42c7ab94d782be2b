"""Reading pairs and triples, and which candidates each query has."""

import json

import numpy as np
import pytest

from plankwise.data.clean import Dropped
from plankwise.data.pieces import Layout
from plankwise.data.ranking import (
    Left,
    gains_of,
    gather,
    gather_from,
    read_pairs,
    read_triples,
    split_queries,
    with_queries,
)
from plankwise.data.retrieval import read_candidates, read_retrieval
from plankwise.errors import DataError

PAIR, TRIPLE = ("query", "text", "score"), ("query", "positive", "negative")


def read(reader, columns, tmp_path, *lines):
    (tmp_path / "rows.csv").write_text("\n".join([",".join(columns), *lines]) + "\n")
    return reader(str(tmp_path / "rows.csv"), columns, Layout(), key="task.train", tell=lambda note: None)


def test_pairs_that_are_empty_repeated_or_contradicting_are_dropped(tmp_path):
    table, dropped = read(read_pairs, PAIR, tmp_path, "a,x,1", "a,x,1", "a,y,0", "b,,1", "b,z,1", "b,z,0.5")
    assert table.to_pylist() == [
        {"text": "a", "text_pair": "x", "label": 1.0},
        {"text": "a", "text_pair": "y", "label": 0.0},
    ]
    assert dropped == Dropped(empty=1, contradicting=2, duplicates=1)


def test_a_score_that_is_not_a_number_is_named_with_its_line(tmp_path):
    with pytest.raises(DataError, match="line 3: label 'high' is not a finite number; fix it, or take the row out"):
        read(read_pairs, PAIR, tmp_path, "a,x,1", "a,y,high")


def test_triples_become_neighbours_of_which_the_better_text_is_the_first(tmp_path):
    table, dropped = read(read_triples, TRIPLE, tmp_path, "a,x,y", "a,x,x", "a,x,y", "b,,y", "b,y,x")
    assert [(row["text"], row["text_pair"], row["label"]) for row in table.to_pylist()] == [
        ("a", "x", 1),
        ("a", "y", 0),
        ("b", "y", 1),
        ("b", "x", 0),
    ]
    assert dropped == Dropped(empty=1, contradicting=1, duplicates=1)
    assert gains_of(table) == {"a": {"x": 1, "y": 0}, "b": {"y": 1, "x": 0}}


def test_queries_whose_order_does_not_matter_are_left_out_and_counted():
    found, left = gather({"a": {"x": 1, "y": 0}, "b": {"x": 0}, "c": {"x": 2, "y": 2}, "d": {"x": 1, "y": 2}})
    assert found.queries == ("a", "d")
    assert found.bounds.tolist() == [0, 2, 4]
    assert found.gains.tolist() == [1, 0, 1, 2]
    assert left == Left(irrelevant=1, alike=1, empty=0)
    assert found.take([1]).table().to_pylist() == [
        {"text": "d", "text_pair": "x"},
        {"text": "d", "text_pair": "y"},
    ]


@pytest.fixture
def folder(tmp_path):
    """Two judged queries on a corpus of thirty documents."""
    (tmp_path / "qrels").mkdir()
    rows = {"corpus": {f"d{n}": f"text {n}" for n in range(30)}, "queries": {"1": "one", "2": "two"}}
    for name, found in rows.items():
        lines = [json.dumps({"_id": key, "text": text}) for key, text in found.items()]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    (tmp_path / "qrels" / "test.tsv").write_text("1\td3\t2\n1\td4\t0\n2\td5\t1\n")
    return tmp_path


def test_others_are_drawn_beside_the_judged_texts_the_same_for_a_seed(folder):
    retrieval = read_retrieval(str(folder), "test", "task.dev")
    found, left = gather_from(retrieval, None, 5, seed=1)
    assert np.diff(found.bounds).tolist() == [7, 6]
    assert found.texts[:2] == ("text 3", "text 4")
    assert found.gains[:7].tolist() == [2, 0, 0, 0, 0, 0, 0]
    assert len(set(found.texts[:7])) == 7
    assert gather_from(retrieval, None, 5, seed=1)[0].texts == found.texts
    assert gather_from(retrieval, None, 5, seed=2)[0].texts != found.texts
    assert left == Left(0, 0, 0)


@pytest.mark.parametrize("line", ["1 Q0 {} 1 9.5 bm25", "1\t{}", "1 {}"])
def test_candidates_are_what_the_file_says_and_missing_relevant_ones_are_kept_in_mind(folder, line):
    retrieval = read_retrieval(str(folder), "test", "task.dev")
    lines = [line.format(name) for name in ("d7", "d4", "d7")]
    (folder / "run.txt").write_text("\n".join([*lines, line.format("d9").replace("1", "other", 1)]))
    found, left = gather_from(retrieval, read_candidates(str(folder / "run.txt"), retrieval, "task.candidates"), 0, 0)
    assert found.texts == ("text 7", "text 4")
    assert found.missing == ((2.0,),)
    assert left == Left(irrelevant=0, alike=0, empty=1)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1 d99", "line 1 of task.candidates: there is no document 'd99'"),
        ("1", "line 1 of task.candidates: a line is a query and a document"),
        ("9 d1", "names no judged query of task.dev"),
    ],
)
def test_candidates_that_cannot_be_used_are_refused(folder, line, reason):
    retrieval = read_retrieval(str(folder), "test", "task.dev")
    (folder / "run.txt").write_text(line)
    with pytest.raises(DataError, match=reason):
        read_candidates(str(folder / "run.txt"), retrieval, "task.candidates")


def test_whole_queries_go_to_dev(tmp_path):
    table, _ = read(read_pairs, PAIR, tmp_path, *(f"q{n % 10},t{n},{n % 2}" for n in range(40)))
    chosen = split_queries(table["text"].to_pylist(), 0.3, np.random.default_rng(0))
    assert len(chosen) == 3
    assert with_queries(table, chosen).sum() == 12
    with pytest.raises(DataError, match="train has 1 query"):
        split_queries(["a", "a"], 0.3, np.random.default_rng(0))
