import contextlib
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from plankwise.data import clean as module
from plankwise.data.clean import Dropped

texts = st.sampled_from(["", " \t", "a", "b", "A", "a ", "é"])
rows = st.lists(st.tuples(texts, texts, st.integers(0, 2)), max_size=30)


def clean(table):
    """The rows that are kept, and what is dropped."""
    kept, dropped = module.clean(table)
    return table.filter(pa.array(kept)), dropped


def single(*pairs):
    return pa.table({"text": [text for text, _ in pairs], "label": [label for _, label in pairs]})


def pair_table(rows, chunks=1):
    columns = {"text": pa.string(), "text_pair": pa.string(), "label": pa.int64()}
    size = len(rows) // chunks + 1
    parts = [rows[start : start + size] for start in range(0, max(len(rows), 1), size)]
    schema = pa.schema(list(columns.items()))
    return pa.concat_tables(
        pa.table([[row[index] for row in part] for index in range(3)], schema=schema) for part in parts
    )


def test_each_reason_is_counted_and_the_order_kept():
    table = single(("z", 1), ("", 0), ("a", 0), ("z", 1), ("b", 0), (" \n", 1), ("b", 1), ("b", 0), ("a", 0), ("c", 1))
    cleaned, dropped = clean(table)
    assert cleaned.to_pydict() == {"text": ["z", "a", "c"], "label": [1, 0, 1]}
    assert dropped == Dropped(empty=2, contradicting=3, duplicates=2)


def test_a_pair_is_one_thing():
    table = pair_table([("a", "b", 0), ("a", "c", 1), ("b", "a", 1), ("a", "b", 0), ("a", "", 1), (" ", "a", 1)])
    cleaned, dropped = clean(table)
    assert cleaned.to_pylist() == table.slice(0, 3).to_pylist()
    assert dropped == Dropped(empty=2, contradicting=0, duplicates=1)


def test_numbers_that_differ_contradict():
    cleaned, dropped = clean(single(("a", 0.5), ("a", 0.6), ("b", 1.0), ("b", 1.0)))
    assert cleaned.to_pydict() == {"text": ["b"], "label": [1.0]}
    assert dropped == Dropped(0, 2, 1)


def test_missing_texts_are_empty():
    assert clean(pa.table({"text": ["a", None], "label": [0, 1]}))[1] == Dropped(1, 0, 0)


def test_nothing_in_nothing_out():
    assert clean(pair_table([]))[1] == Dropped(0, 0, 0)
    assert clean(single(("", 0), (" ", 1)))[0].num_rows == 0


@settings(deadline=None)
@given(rows, st.integers(1, 3))
def test_what_is_left_is_filled_and_unique_and_was_the_first_of_its_kind(rows, chunks):
    table = pair_table(rows, chunks)
    cleaned, dropped = clean(table)
    kept = [tuple(row.values()) for row in cleaned.to_pylist()]
    labels = {}
    for first, second, label in rows:
        labels.setdefault((first, second), set()).add(label)
    expected = dict.fromkeys(
        row for row in rows if row[0].strip() and row[1].strip() and len(labels[row[0], row[1]]) == 1
    )
    assert kept == list(expected)
    assert len(rows) - len(kept) == dropped.empty + dropped.contradicting + dropped.duplicates


@settings(deadline=None)
@given(rows)
def test_cleaning_twice_changes_nothing(rows):
    once, _ = clean(pair_table(rows))
    twice, dropped = clean(once)
    assert twice.equals(once)
    assert dropped == Dropped(0, 0, 0)


@settings(deadline=None)
@given(rows, st.integers(1, 3), st.integers(1, 4))
def test_neither_equal_hashes_nor_portions_nor_batches_change_what_is_kept(rows, chunks, batch_rows):
    table = pair_table(rows, chunks)
    expected = module.clean(table)
    zeros = patch.object(module, "_hash", lambda texts: np.zeros(len(texts), dtype=np.uint64))
    small = patch.object(module, "COMPARED_BYTES", 1), patch.object(module, "STEP_ROWS", 2)
    with zeros, small[0], small[1], patch("plankwise.data.mapped.BATCH_ROWS", batch_rows):
        kept, dropped = module.clean(table)
    assert kept.tolist() == expected[0].tolist()
    assert dropped == expected[1]
    with patch.object(module, "HASHED_BYTES", 1):
        assert module.clean(table)[0].tolist() == expected[0].tolist()


@settings(deadline=None)
@given(rows, rows, rows, st.integers(1, 3), st.integers(1, 4), st.booleans())
def test_shared_are_exactly_the_kept_rows_that_are_kept_in_another_table(
    ours, first, second, chunks, batch_rows, alike
):
    table, others = pair_table(ours, chunks), [pair_table(first), pair_table(second, chunks)]
    kept, *masks = (np.array([row[2] > 0 for row in some], dtype=bool) for some in (ours, first, second))
    known = {row[:2] for row in [*first, *second] if row[2] > 0}
    expected = [row[2] > 0 and row[:2] in known for row in ours]
    hashed = patch.object(module, "_hash", lambda texts: np.zeros(len(texts), dtype=np.uint64))
    small = patch.object(module, "COMPARED_BYTES", 20), patch.object(module, "STEP_ROWS", 2)
    with contextlib.ExitStack() as stack:
        for one in (*small, patch("plankwise.data.mapped.BATCH_ROWS", batch_rows), *([hashed] if alike else [])):
            stack.enter_context(one)
        shared = module.find_shared(table, kept, list(zip(others, masks, strict=True)))
    assert shared.tolist() == expected


def test_missing_texts_and_wider_strings_are_compared_too():
    table = pa.table({"text": ["a", None, "b"], "label": [0, 1, 0]})
    other = pa.table({"text": pa.array(["b", None], pa.large_string()), "label": [1, 1]})
    everything = np.ones(3, dtype=bool)
    assert module.find_shared(table, everything, [(other, everything[:2])]).tolist() == [False, True, True]


@settings(deadline=None)
@given(st.lists(st.text(max_size=5), min_size=1, max_size=30), st.integers(0, 3), st.integers(6, 40))
def test_texts_have_one_hash_exactly_if_they_are_equal(texts, offset, most):
    with patch.object(module, "HASHED_BYTES", 4 * most):
        hashes = module._hash(pa.array(["x"] * offset + texts, pa.large_string()).slice(offset))
    assert len(hashes) == len(texts)
    assert len(set(hashes.tolist())) == len(set(texts))
    assert len({*zip(hashes.tolist(), texts, strict=True)}) == len(set(texts))
