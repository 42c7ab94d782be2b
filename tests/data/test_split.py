from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plankwise.data import split as module
from plankwise.data.clean import Dropped
from plankwise.data.source import Source, TaskOptions
from plankwise.data.split import prepare
from plankwise.errors import DataError


def numbered(labels):
    return pa.table({"text": [f"text {row}" for row in range(len(labels))], "label": pa.array(labels, pa.int64())})


def source(train, dev=None, kind="classes"):
    return Source(
        "test", kind, ("no", "yes") if kind == "classes" else (), ("accuracy",), ("accuracy",), train, dev or {}
    )


def split(table, share, *, labels=(), **more):
    """Train and dev."""
    in_dev = module.split(table["label"].to_numpy(), share, names=labels, **more)
    return table.filter(pa.array(~in_dev)), table.filter(pa.array(in_dev))


def limit(table, n, **more):
    return table.filter(pa.array(module.limit(table["label"].to_numpy(), n, **more)))


def rows_of(table):
    return [int(text.split()[1]) for text in table["text"].to_pylist()]


BALANCED = numbered([0, 1] * 50)


@given(st.integers(2, 60), st.floats(0.01, 0.99), st.integers(0, 2**40))
def test_each_row_is_in_exactly_one_part(num_rows, share, seed):
    train, dev = split(numbered([0] * num_rows), share, stratified=False, seed=seed)
    assert sorted(rows_of(train) + rows_of(dev)) == list(range(num_rows))
    assert rows_of(train) == sorted(rows_of(train))
    assert train.num_rows > 0
    assert dev.num_rows == min(max(1, round(num_rows * share)), num_rows - 1)


@given(st.lists(st.integers(10, 30), min_size=2, max_size=4), st.integers(0, 100))
def test_a_stratified_split_keeps_every_class_at_its_share(sizes, seed):
    labels = [label for label, size in enumerate(sizes) for _ in range(size)]
    train, dev = split(numbered(labels), 0.2, stratified=True, seed=seed)
    assert sorted(rows_of(train) + rows_of(dev)) == list(range(len(labels)))
    counts = Counter(dev["label"].to_pylist())
    for label, size in enumerate(sizes):
        assert abs(counts[label] - 0.2 * size) < 1.5


@pytest.mark.parametrize(
    ("stratified", "seed", "rows"),
    [
        (True, 0, [0, 3, 5, 9, 10]),
        (True, 2**32 + 7, [6, 11, 14, 16, 17]),
        (False, 0, [1, 8, 10, 18, 19]),
        (False, 2**32 + 7, [1, 2, 5, 11, 17]),
    ],
)
def test_a_seed_goes_on_drawing_the_rows_that_finished_runs_were_measured_on(stratified, seed, rows):
    in_dev = module.split(np.array([0, 1, 1, 2] * 5), 0.25, stratified=stratified, seed=seed)
    assert np.flatnonzero(in_dev).tolist() == rows


def test_the_seed_decides():
    def dev(seed):
        return rows_of(split(BALANCED, 0.2, stratified=True, seed=seed)[1])

    assert dev(3) == dev(3)
    assert dev(3) != dev(4)


def test_a_class_with_one_row_is_named():
    table = numbered([0] * 10 + [1])
    with pytest.raises(DataError, match="class 'yes' has 1 row in train, too few"):
        split(table, 0.2, stratified=True, seed=0, labels=("no", "yes"))
    with pytest.raises(DataError, match="class 1 has 1 row"):
        split(table, 0.2, stratified=True, seed=0)


@pytest.mark.parametrize("share", [0.01, 0.99])
def test_a_part_smaller_than_the_number_of_classes_is_refused(share):
    with pytest.raises(DataError, match=f"task.dev_share is {share}.*the 2 classes"):
        split(BALANCED, share, stratified=True, seed=0)


def test_one_row_cannot_be_split():
    with pytest.raises(DataError, match="train has 1 row, too few"):
        split(numbered([0]), 0.5, stratified=False, seed=0)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 70), st.booleans(), st.integers(0, 9))
def test_a_limit_draws_that_many_different_rows_in_order(labels, n, stratified, seed):
    rows = rows_of(limit(numbered(labels), n, stratified=stratified, seed=seed))
    assert len(rows) == min(n, len(labels))
    assert rows == sorted(set(rows))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(4, 60), st.integers(0, 9))
def test_a_stratified_limit_keeps_each_class_and_its_share(labels, n, seed):
    counts = Counter(limit(numbered(labels), n, stratified=True, seed=seed)["label"].to_pylist())
    whole, num = Counter(labels), min(n, len(labels))
    assert set(counts) == set(whole)
    for label, count in whole.items():
        assert abs(counts[label] - num * count / len(labels)) < len(whole)


@pytest.mark.parametrize("stratified", [False, True])
def test_a_smaller_limit_draws_a_subset_of_a_larger_one(stratified):
    small, large = (rows_of(limit(BALANCED, n, stratified=stratified, seed=1)) for n in (10, 30))
    assert set(small) < set(large)
    assert small != rows_of(limit(BALANCED, 10, stratified=stratified, seed=2))


def test_dev_is_split_off_when_there_is_none():
    prepared = prepare(source(BALANCED), TaskOptions(dev_share=0.1), seed=0)
    assert (prepared.train.num_rows, prepared.dev["dev"].num_rows) == (90, 10)
    assert prepared.dropped == {"train": Dropped(0, 0, 0)}


def test_a_given_dev_set_is_cleaned_and_train_left_whole():
    dev = numbered([0, 1, 1])
    doubled = pa.concat_tables([dev, dev])
    prepared = prepare(source(BALANCED, {"dev": doubled}), TaskOptions(overlap="keep"), seed=0)
    assert prepared.train.equals(BALANCED)
    assert prepared.dev["dev"].equals(dev)
    assert prepared.dropped == {"train": Dropped(0, 0, 0), "dev": Dropped(0, 0, 3)}


def test_without_cleaning_nothing_is_dropped():
    doubled = pa.concat_tables([BALANCED, BALANCED])
    prepared = prepare(source(doubled, {"dev": doubled}), TaskOptions(clean=False, overlap="keep"), seed=0)
    assert prepared.train.num_rows == prepared.dev["dev"].num_rows == 200
    assert prepared.dropped == {}


def test_train_texts_that_are_in_any_dev_set_are_dropped_whatever_their_label():
    devs = {"matched": pa.table({"text": ["text 3", "new"], "label": [0, 1]}), "mismatched": BALANCED.slice(50, 2)}
    prepared = prepare(source(BALANCED, devs), TaskOptions(), seed=0)
    assert rows_of(prepared.train) == [row for row in range(100) if row not in (3, 50, 51)]
    assert {name: table.num_rows for name, table in prepared.dev.items()} == {"matched": 2, "mismatched": 2}
    assert prepared.dropped["train"] == Dropped(0, 0, 0, overlap=3)
    assert prepared.overlap == 3
    kept = prepare(source(BALANCED, devs), TaskOptions(overlap="keep"), seed=0)
    assert kept.train.equals(BALANCED)
    assert (kept.dropped["train"], kept.overlap) == (Dropped(0, 0, 0), 3)


def test_texts_that_an_uncleaned_split_puts_on_both_sides_are_found():
    doubled = pa.concat_tables([BALANCED, BALANCED])
    options = TaskOptions(clean=False, dev_share=0.25)
    before = prepare(source(doubled), options.model_copy(update={"overlap": "keep"}), seed=0)
    after = prepare(source(doubled), options, seed=0)
    in_dev = set(before.dev["dev"]["text"].to_pylist())
    assert after.dev["dev"].equals(before.dev["dev"])
    assert after.train["text"].to_pylist() == [text for text in before.train["text"].to_pylist() if text not in in_dev]
    assert after.overlap == before.overlap == before.train.num_rows - after.train.num_rows > 0
    assert after.dropped == {"train": Dropped(0, 0, 0, overlap=after.overlap)}


@pytest.mark.parametrize("options", [{}, {"clean": False}, {"train_limit": 30, "dev_limit": 7}])
def test_a_seed_draws_the_same_rows_where_nothing_overlaps(options):
    dev = pa.table({"text": [f"other {row}" for row in range(20)], "label": [0, 1] * 10})
    for devs in ({}, {"dev": dev}):
        one, other = (
            prepare(source(BALANCED, devs), TaskOptions(overlap=overlap, **options), seed=3)
            for overlap in ("drop", "keep")
        )
        assert (one.overlap, other.overlap) == (0, 0)
        assert one.train.equals(other.train)
        assert one.dev["dev"].equals(other.dev["dev"])
        assert one.dropped == other.dropped


def test_limits_hold_for_train_and_each_dev_set():
    given_source = source(BALANCED, {"matched": BALANCED, "mismatched": BALANCED.slice(0, 5)})
    prepared = prepare(given_source, TaskOptions(train_limit=20, dev_limit=8, overlap="keep"), seed=0)
    assert Counter(prepared.train["label"].to_pylist()) == {0: 10, 1: 10}
    assert {name: table.num_rows for name, table in prepared.dev.items()} == {"matched": 8, "mismatched": 5}


def test_numbers_are_split_without_classes():
    table = pa.table({"text": [f"text {row}" for row in range(10)], "label": [row / 7 for row in range(10)]})
    prepared = prepare(source(table, kind="number"), TaskOptions(), seed=0)
    assert (prepared.train.num_rows, prepared.dev["dev"].num_rows) == (8, 2)


@pytest.mark.parametrize(
    ("train", "dev", "options", "message"),
    [
        (pa.table({"text": ["", " "], "label": [0, 1]}), {}, {}, "train has no rows; cleaning dropped 2 empty"),
        (BALANCED, {"dev": BALANCED.slice(0, 0)}, {"clean": False}, "dev has no rows: give more examples$"),
        (pa.table({"text": ["a", "a", "b"], "label": [0, 1, 1]}), {}, {}, "one class, 'yes'.*2 contradicting"),
        (numbered([0, 0]), {}, {"clean": False}, "one class, 'no', but at least two are needed; add"),
        (BALANCED, {"dev": BALANCED}, {}, "no rows left: 100 rows .* in dev too were dropped; .*task.overlap = 'keep'"),
        (
            numbered([0, 0, 1]),
            {"dev": numbered([0, 0, 1]).slice(2)},
            {},
            r"one class, 'no'.*\(1 rows whose text is in dev.*task.overlap",
        ),
        (BALANCED, {}, {"train_limit": 1}, "one class.*task.train_limit = 1"),
    ],
)
def test_too_little_left_is_an_error_that_says_why(train, dev, options, message):
    with pytest.raises(DataError, match=message):
        prepare(source(train, dev), TaskOptions(**options), seed=0)


def test_a_table_that_is_mapped_gives_the_same_rows_as_one_in_memory(monkeypatch, tmp_path):
    table = pa.concat_tables([BALANCED, numbered([0, 1] * 70), pa.table({"text": [""], "label": [1]})])
    options = TaskOptions(train_limit=60, dev_limit=20)
    devs = {"dev": pa.concat_tables([numbered([0, 1] * 5), pa.table({"text": ["new"], "label": [1]})])}
    expected, overlapping = (prepare(source(table, given), options, seed=5) for given in ({}, devs))
    monkeypatch.setattr("plankwise.data.mapped.MEMORY_BYTES", 100)
    monkeypatch.setattr("plankwise.data.mapped.BATCH_ROWS", 7)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    prepared = prepare(source(table), options, seed=5)
    assert prepared.train.equals(expected.train)
    assert prepared.dev["dev"].equals(expected.dev["dev"])
    assert prepared.dropped == expected.dropped == {"train": Dropped(1, 0, 100)}
    mapped = prepare(source(table, devs), options, seed=5)
    assert mapped.train.equals(overlapping.train)
    assert mapped.overlap == overlapping.overlap == 10
