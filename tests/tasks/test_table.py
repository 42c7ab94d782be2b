import pyarrow as pa
import pytest
from pydantic import ValidationError

from plankwise.errors import ConfigError, DataError
from plankwise.evaluation.metrics import CLASS_METRICS, NUMBER_METRICS
from plankwise.tasks import table


def options(tmp_path, train, dev=None, name="reviews.csv", **more):
    (tmp_path / name).write_text(train, encoding="utf-8")
    if dev is not None:
        (tmp_path / "dev.csv").write_text(dev, encoding="utf-8")
        more["dev"] = str(tmp_path / "dev.csv")
    return table.Options(**{"train": str(tmp_path / name), "text": "text", "label": "label", **more})


TWO = "text,label\nfine,positive\npoor,negative\n"
LISTED = r"^reviews\.csv line 4: label 'w' is not in task\.labels \(x, y\)$"
FOUND = r"^dev\.csv line 4: label 'neutral' does not occur in reviews\.csv \(negative, positive\); fix it, or list"
THREE = "text,label\na,x\nb,y\nc,z\n"


def test_classes_are_sorted_and_encoded_by_index(tmp_path):
    source = table.read(options(tmp_path, TWO, TWO))
    assert source.labels == ("negative", "positive")
    assert source.train.to_pydict() == {"text": ["fine", "poor"], "label": [1, 0]}
    assert source.train["label"].type == pa.int64()
    assert source.dev["dev"].equals(source.train)
    assert (source.name, source.kind, source.score) == ("reviews", "classes", ("accuracy",))


def test_listed_labels_give_the_order(tmp_path):
    source = table.read(options(tmp_path, TWO, labels=["positive", "neutral", "negative"]))
    assert source.labels == ("positive", "neutral", "negative")
    assert source.train["label"].to_pylist() == [0, 2]
    assert source.dev == {}


def test_whole_numbers_as_classes_are_sorted_as_numbers(tmp_path):
    source = table.read(options(tmp_path, "text,label\na,10\nb,2\nc,-1\n"))
    assert source.labels == ("-1", "2", "10")


def test_pairs_and_numbers_are_read(tmp_path):
    text = "p,q,s\na,b,0.5\nc,d,4\n"
    source = table.read(options(tmp_path, text, text=["p", "q"], label="s", kind="number"))
    assert source.train.to_pydict() == {"text": ["a", "c"], "text_pair": ["b", "d"], "label": [0.5, 4.0]}
    assert (source.labels, source.metrics, source.score) == ((), ("pearson", "spearman"), ("pearson", "spearman"))


def test_columns_without_a_header_are_given_by_number(tmp_path):
    source = table.read(options(tmp_path, "fine,1\npoor,0\n", text=0, label=1, header=False, labels=[1, 0]))
    assert source.train.to_pydict() == {"text": ["fine", "poor"], "label": [0, 1]}


def test_test_texts_are_numbered_and_need_no_label(tmp_path):
    (tmp_path / "new.csv").write_text("text\nx\ny\n")
    given = options(tmp_path, TWO, test=str(tmp_path / "new.csv"))
    assert table.read_tests(given)["new"].to_pydict() == {"id": [0, 1], "text": ["x", "y"]}
    with pytest.raises(DataError, match=r"task\.test is not given"):
        table.read_tests(options(tmp_path, TWO))


@pytest.mark.parametrize(
    ("train", "dev", "more", "message"),
    [
        ('text,label\n"a\nb",x\nc,w\n', None, {"labels": ["x", "y"]}, LISTED),
        (TWO, 'text,label\n"a\nb",positive\nc,neutral\n', {}, FOUND),
        ("text,label\na,x\nb,x\n", None, {}, "every label in column 'label' is 'x'; at least two classes"),
        ("text,label\na,x\nb,x\n", None, {"labels": ["x", "y"]}, "every label in column 'label' is 'x'"),
        ('text,label\n"a\n",x\nb, \n', None, {}, "reviews.csv line 4: the label is empty"),
        (TWO, "text,label\na,\n", {}, "dev.csv line 2: the label is empty"),
        ("text,label\na,1\n\nb,1,5\n", None, {}, "line 4: 3 columns"),
        ("text,label\na,1\n\nb,one\n", None, {"kind": "number"}, "reviews.csv line 4: label 'one' is not a finite"),
        ("text,label\na,1\nb,nan\n", None, {"kind": "number"}, "reviews.csv line 3: label 'nan' is not a finite"),
        ("text,label\na,1\nb,\n", None, {"kind": "number"}, "reviews.csv line 3: the label is empty"),
    ],
)  # fmt: skip
def test_a_bad_label_is_named_with_its_line(tmp_path, train, dev, more, message):
    with pytest.raises(DataError, match=message):
        table.read(options(tmp_path, train, dev, **more))


def test_jsonl_labels_are_placed_too(tmp_path):
    train = '{"text": "a", "label": "x"}\n\n{"text": "b", "label": null}\n'
    with pytest.raises(DataError, match=r"reviews\.jsonl line 3: the label is empty"):
        table.read(options(tmp_path, train, name="reviews.jsonl"))


def test_the_metric_becomes_the_score_and_is_measured(tmp_path):
    assert table.read(options(tmp_path, TWO, metric="f1")).score == ("f1",)
    source = table.read(options(tmp_path, THREE, metric="roc_auc"))
    assert source.score == ("roc_auc",)
    assert source.metrics == ("accuracy", "macro_f1", "matthews", "roc_auc")
    assert table.read(options(tmp_path, "text,label\na,1\nb,2\n", kind="number", metric="pearson")).score == (
        "pearson",
    )


def test_f1_of_three_classes_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"task.metric is 'f1'.*there are 3 \(x, y, z\); choose macro_f1"):
        table.read(options(tmp_path, THREE, metric="f1"))


def test_the_metrics_offered_are_those_that_evaluation_has():
    assert {kind: set(names) for kind, names in table.METRICS.items()} == {
        "classes": set(CLASS_METRICS),
        "number": set(NUMBER_METRICS),
    }


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"text": ["a", "b", "c"]}, "task.text is .* give one column, or two"),
        ({"text": ["a", "a"]}, "two different ones"),
        ({"text": "label"}, "task.label is 'label', which is task.text too"),
        ({"separator": ";;"}, "task.separator is ';;'; give one ASCII character"),
        ({"encoding": "utf-9"}, "task.encoding is 'utf-9'; Python has no such encoding"),
        ({"encoding": "base64"}, "task.encoding is 'base64'"),
        ({"metric": "accuracies"}, "task.metric is 'accuracies'; there is no such metric.* Did you mean 'accuracy'"),
        (
            {"metric": "f1", "kind": "number"},
            "there is no such metric for task.kind = 'number'. Known: pearson, spearman",
        ),
        ({"labels": ["a", "a"]}, "task.labels is .* only once"),
        ({"labels": ["a"]}, "at least 2"),
        ({"labels": ["a", "b"], "kind": "number"}, "task.labels is given, but task.kind is 'number'"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(tmp_path, more, message):
    with pytest.raises(ValidationError, match=message):
        options(tmp_path, TWO, **more)


def test_a_tab_may_be_written_with_a_backslash(tmp_path):
    assert options(tmp_path, TWO, separator="\\t").separator == "\t"


STRAY = 'text\tlabel\n"fine\tpositive\npoor\tnegative\nsaid "so\tpositive\nbad\tnegative\n'


def test_rows_that_quotes_have_joined_are_noted_for_each_file(tmp_path):
    (tmp_path / "dev.tsv").write_text(STRAY)
    given = options(tmp_path, STRAY, name="reviews.tsv")
    source = table.read(given.model_copy(update={"dev": str(tmp_path / "dev.tsv")}))
    assert source.train.num_rows == 2
    assert [note.partition(",")[0] for note in source.notes] == [
        "reviews.tsv: 4 lines became 2 rows",
        "dev.tsv: 4 lines became 2 rows",
    ]


@pytest.mark.parametrize(("given", "rows"), [("none", 4), (False, 4), ("double", 2), (True, 2)])
def test_quoting_may_be_given_by_name(tmp_path, given, rows):
    source = table.read(options(tmp_path, STRAY, name="reviews.tsv", quoting=given))
    assert source.train.num_rows == rows
    assert len(source.notes) == (rows != 4)
