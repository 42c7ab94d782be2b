import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plankwise.data.cells import make_safe, undo_safe
from plankwise.errors import DataError
from plankwise.evaluation.hand_labels import Answers, read_labels, write_sample

FORMULA = '=HYPERLINK("http://x.y";"z")'


def make_answers(labels, before, after, texts=None, names=("no", "yes")):
    texts = texts or [(f"text {row}",) for row in range(len(labels))]
    predicted = {"predecessor": np.array(before), "successor": np.array(after)}
    return Answers(texts, list(names), np.array(labels), predicted)


@pytest.fixture
def answers():
    """Rows 1 and 2 are false positives (of both, of the successor), 4 and 5 false negatives (of both, of the predecessor)."""
    return make_answers([0, 0, 0, 1, 1, 1], before=[0, 1, 0, 1, 0, 0], after=[0, 1, 1, 1, 0, 1])


def read(path):
    return list(csv.DictReader(path.open(encoding="utf-8-sig", newline="")))


def fill_in(path, classes, delimiter=",", encoding="utf-8-sig"):
    """Writes the file as a spreadsheet would, with these classes by row."""
    rows = [{**row, "error_class": classes.get(int(row["row"]), "")} for row in read(path)]
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), delimiter=delimiter, lineterminator="\r\n")
        writer.writeheader()
        writer.writerows(rows)


def test_the_sample_has_the_errors_of_either_model_and_an_empty_column(answers, tmp_path):
    assert write_sample(tmp_path / "errors.csv", answers, count=10, seed=0) == 4
    rows = read(tmp_path / "errors.csv")
    assert [row["row"] for row in rows] == ["1", "2", "4", "5"]
    assert rows[1] == {
        "row": "2", "text": "text 2", "label": "no", "predecessor": "no", "successor": "yes", "error_class": ""
    }  # fmt: skip


def test_half_of_a_sample_are_false_positives_as_far_as_there_are_so_many(tmp_path):
    labels = np.repeat([0, 1], [40, 10])
    answers = make_answers(labels, 1 - labels, 1 - labels)
    for count, positives in ((8, 4), (30, 20), (100, 40)):
        write_sample(tmp_path / "errors.csv", answers, count=count, seed=1)
        found = [row["label"] for row in read(tmp_path / "errors.csv")]
        assert (len(found), found.count("no")) == (min(count, 50), positives)


def test_the_seed_decides_what_is_drawn(tmp_path):
    labels = np.zeros(500, dtype=int)
    answers = make_answers(labels, labels + 1, labels, names=("a", "b", "c"))
    drawn = []
    for seed in (3, 3, 4):
        write_sample(tmp_path / "errors.csv", answers, count=20, seed=seed)
        drawn.append([row["row"] for row in read(tmp_path / "errors.csv")])
    assert drawn[0] == drawn[1] != drawn[2]


def test_no_cell_begins_like_a_formula_and_all_come_back(tmp_path):
    texts = [(FORMULA, "+1"), ("-1", "@you\nand me"), ("'quoted'", "\tx"), ("'=", "plain")]
    answers = make_answers([0] * 4, [1] * 4, [1] * 4, texts, names=("-", "+"))
    write_sample(tmp_path / "errors.csv", answers, count=10, seed=0)
    for row in read(tmp_path / "errors.csv"):
        assert not any(value.startswith(("=", "+", "-", "@", "\t", "\r")) for value in row.values())
    fill_in(tmp_path / "errors.csv", dict.fromkeys(range(4), "odd"))
    assert read_labels(tmp_path / "errors.csv", answers, margin=0.03)["labelled"] == 4


@given(st.text())
def test_making_a_cell_safe_can_be_undone(text):
    assert undo_safe(make_safe(text)) == text


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_labels_come_back_as_a_table_like_that_of_the_rules(answers, tmp_path, delimiter):
    path = tmp_path / "errors.csv"
    write_sample(path, answers, count=10, seed=0)
    fill_in(path, {1: "irony", 2: " irony ; rare  word", 4: "doubtful label"}, delimiter)
    found = read_labels(path, answers, margin=0.05)
    assert (found["labelled"], found["empty"], found["margin"]) == (3, 1, 0.05)
    assert [rule["name"] for rule in found["rules"]] == ["doubtful label", "irony", "rare word"]
    counts = {
        (row["side"], row["name"]): [(row[when]["count"], row[when]["of"]) for when in ("before", "after")]
        for row in found["rows"]
    }
    assert counts == {
        ("false positives", "doubtful label"): [(0, 1), (0, 2)],
        ("false positives", "irony"): [(1, 1), (2, 2)],
        ("false positives", "rare word"): [(0, 1), (1, 2)],
        ("false negatives", "doubtful label"): [(1, 1), (1, 1)],
        ("false negatives", "irony"): [(0, 1), (0, 1)],
        ("false negatives", "rare word"): [(0, 1), (0, 1)],
    }


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("error_class", "class"), "has the columns row, text, label, predecessor, successor, class, but a sample of"),
        (("error_class", "error_class,notes"), "successor, error_class, notes, but a sample of this run has row, text"),
        (("text 2", "other words"), "line 3: text is 'other words', but in row 2 of this run it is 'text 2'; sample"),
        (("no,no,yes", "no,yes,yes"), "line 3: predecessor is 'yes', but in row 2 of this run it is 'no'; sample the"),
        (
            ("\n1,", "\n77,"),
            "line 2: row '77' is not an error of this run; sample the errors of this run with --sample",
        ),
        (("\n1,", "\nfirst,"), "line 2: row 'first' is not an error of this run"),
        (("\n1,text 1,no,yes,yes", "\n0,text 0,no,no,no"), "line 2: row '0' is not an error of this run"),
        (("\n1,text 1,no,yes,yes", "\n2,text 2,no,no,yes"), "line 3: row 2 is there twice; take one of the two out"),
        (("text 2,", "text 2,,"), "line 3 has 7 cells instead of 6; fix the line"),
        (("x", "x"), "has nothing in the column error_class; write the class of each error there"),
    ],
)
def test_a_table_that_is_not_of_this_run_is_refused_with_the_line(answers, tmp_path, change, sentence):
    path = tmp_path / "errors.csv"
    write_sample(path, answers, count=10, seed=0)
    path.write_text(path.read_text("utf-8").replace(*change), "utf-8")
    with pytest.raises(DataError) as caught:
        read_labels(path, answers, margin=0.03)
    assert sentence in str(caught.value)


def test_a_file_that_is_gone_or_in_another_encoding_is_refused(answers, tmp_path):
    with pytest.raises(DataError, match=r"cannot be read \(No such file"):
        read_labels(tmp_path / "none.csv", answers, margin=0.03)
    (tmp_path / "old.csv").write_bytes("row,text,größe".encode("latin-1"))
    with pytest.raises(DataError, match=r"is not utf-8 at byte 11; save it as a csv file in utf-8"):
        read_labels(tmp_path / "old.csv", answers, margin=0.03)


def test_two_models_without_errors_leave_nothing_to_label(tmp_path):
    assert write_sample(tmp_path / "errors.csv", make_answers([0, 1], [0, 1], [0, 1]), count=5, seed=0) == 0
    assert not (tmp_path / "errors.csv").exists()
