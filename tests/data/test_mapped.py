import numpy as np
import pyarrow as pa
import pytest

from plankwise.data import mapped as module
from plankwise.data.mapped import gather, in_batches, pick
from plankwise.errors import RunError
from plankwise.tasks import table

TABLE = pa.table({"text": [f"text {row}" for row in range(50)], "label": list(range(50))})


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """Every table is large; the cache is a folder of its own."""
    monkeypatch.setattr(module, "MEMORY_BYTES", 100)
    monkeypatch.setattr(module, "BATCH_ROWS", 7)
    monkeypatch.setattr(module, "RELEASE_BYTES", 200)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache" / "plankwise"


def test_a_large_table_is_mapped_and_leaves_no_file(cache):
    before = pa.total_allocated_bytes()
    mapped = gather(iter(TABLE.to_batches(max_chunksize=9)), TABLE.schema)
    assert pa.total_allocated_bytes() == before
    assert mapped.equals(TABLE)
    assert list(cache.iterdir()) == []


def test_a_small_table_needs_no_cache(cache, monkeypatch):
    monkeypatch.setattr(module, "MEMORY_BYTES", 10_000)
    assert gather(TABLE.to_batches(), TABLE.schema).equals(TABLE)
    assert not cache.exists()


def test_memory_that_is_given_back_is_read_again(cache):
    mapped = gather(TABLE.to_batches(max_chunksize=9), TABLE.schema)
    for _ in range(2):
        batches = list(in_batches(mapped, 4))
        assert [start for start, _ in batches] == np.cumsum([0, *(len(batch) for _, batch in batches[:-1])]).tolist()
        assert all(len(batch) <= 4 for _, batch in batches)
        assert pa.Table.from_batches([batch for _, batch in batches]).equals(TABLE)


def test_rows_are_picked_in_order_and_all_of_them_are_the_table_itself(cache):
    kept = np.arange(50) % 3 == 1
    assert pick(TABLE, kept).equals(TABLE.filter(pa.array(kept)))
    assert pick(TABLE, np.zeros(50, dtype=bool)).equals(TABLE.slice(0, 0))
    assert pick(TABLE, np.ones(50, dtype=bool)) is TABLE


def test_an_error_on_the_way_leaves_no_file(cache):
    def break_off():
        yield from TABLE.to_batches(max_chunksize=9)
        raise ValueError("broken off")

    with pytest.raises(ValueError, match="broken off"):
        gather(break_off(), TABLE.schema)
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(cache):
    cache.parent.write_text("a file where the folder should be")
    with pytest.raises(
        RunError, match=r"cache.plankwise, where large .* cannot be written .*; free some space there, or set HF"
    ):
        gather(TABLE.to_batches(), TABLE.schema)


@pytest.mark.parametrize("name", ["reviews.csv", "reviews.jsonl", "reviews.parquet"])
def test_a_large_file_gives_the_same_source_as_a_small_one(cache, tmp_path, monkeypatch, name):
    rows = [(f"text {row}", ("no", "yes")[row % 2]) for row in range(40)]
    file = tmp_path / name
    if name.endswith("csv"):
        file.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    elif name.endswith("jsonl"):
        file.write_text("".join(f'{{"text": "{text}", "label": "{label}"}}\n' for text, label in rows))
    else:
        columns = dict(zip(("text", "label"), map(list, zip(*rows, strict=True)), strict=True))
        pa.parquet.write_table(pa.table(columns), file)
    options = table.Options(train=str(file), text="text", label="label")
    mapped = table.read(options)
    monkeypatch.setattr(module, "MEMORY_BYTES", 1 << 20)
    assert mapped.train.equals(table.read(options).train)
    assert mapped.train["label"].to_pylist() == [row % 2 for row in range(40)]
    assert list(cache.iterdir()) == []
