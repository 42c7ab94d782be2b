"""Tables of any size: small ones in memory, larger ones in an Arrow file that is mapped, so that few rows are in memory at once."""

import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plankwise.errors import RunError
from plankwise.files import explain_full_disk

MEMORY_BYTES = 64 << 20  # a table larger than this goes to disk
BATCH_ROWS = 1 << 14  # looked at together
RELEASE_BYTES = 64 << 20  # read before the pages are given back

_maps: "weakref.WeakSet[mmap.mmap]" = weakref.WeakSet()


def cache_folder() -> Path:
    """Where what is made of large tables is kept: below the cache of Hugging Face datasets, which HF_DATASETS_CACHE moves."""
    from datasets import config  # slow to import, and not needed for small tables

    return Path(config.HF_DATASETS_CACHE) / "plankwise"


@contextmanager
def explain_cache() -> Iterator[None]:
    """Turns any error of writing to the cache into a sentence that says how to move it.

    Raises:
        RunError: the disk is full, or the place is not for writing.
    """
    folder = cache_folder()
    try:
        with explain_full_disk(folder):
            yield
    except (OSError, RunError) as error:
        cause = error.__cause__ or error
        raise RunError(
            f"{folder}, where large tables are kept, cannot be written ({cause}); "
            "free some space there, or set HF_DATASETS_CACHE to a folder on another disk"
        ) from error


def gather(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """The batches as one table, mapped from a file without a name if they are large; the file goes when the table does.

    Raises:
        RunError: they are large, and the cache cannot be written.
    """
    kept: list[pa.RecordBatch] = []
    size, stream = 0, iter(batches)
    for batch in stream:
        kept.append(batch)
        size += batch.nbytes
        if size > MEMORY_BYTES:
            return _spill(kept, stream, schema)
    return pa.Table.from_batches(kept, schema)


def _spill(kept: list[pa.RecordBatch], stream: Iterator[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    with explain_cache():
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=".rows.", suffix=".part")
        os.close(handle)
    try:
        with explain_cache():
            writer = pa.ipc.new_stream(name, schema)
            for batch in kept:
                writer.write_batch(batch)
        kept.clear()
        for batch in stream:
            with explain_cache():
                writer.write_batch(batch)
        with explain_cache():
            writer.close()
        return map_table(Path(name))
    finally:
        with suppress(OSError):  # not every system can remove a file that is in use
            os.unlink(name)


def map_table(path: Path) -> pa.Table:
    """The table of an Arrow stream file, read where it is needed."""
    with open(path, "rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    _maps.add(pages)
    return pa.ipc.open_stream(pa.py_buffer(pages)).read_all()


def release() -> None:
    """Gives back the memory of what has been read of mapped tables; it is read again when needed."""
    if hasattr(mmap, "MADV_DONTNEED"):
        for pages in list(_maps):
            pages.madvise(mmap.MADV_DONTNEED)


def in_batches(table: pa.Table, rows: int | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The table piece by piece, each with the number of its first row; memory stays that of a few pieces."""
    start = size = 0
    for batch in table.to_batches(max_chunksize=rows or BATCH_ROWS):
        yield start, batch
        start += batch.num_rows
        size += batch.nbytes
        if size > RELEASE_BYTES:
            release()
            size = 0
    release()


def find_first(chunks: Sequence[pa.Array], fits: Callable[[pa.Array], pa.Array]) -> int:
    """The first row, of all chunks, that fits, or -1; what `fits` returns is in memory for one chunk at a time."""
    start = 0
    for chunk in chunks:
        row: int = pc.index(fits(chunk), True).as_py()
        if row >= 0:
            return start + row
        start += len(chunk)
    return -1


def pick(table: pa.Table, kept: np.ndarray) -> pa.Table:
    """The rows that `kept` (N,) is true for, in their order; the table itself if those are all.

    Raises:
        RunError: they are large, and the cache cannot be written.
    """
    if kept.all():
        return table
    picked = (batch.filter(pa.array(kept[start : start + len(batch)])) for start, batch in in_batches(table))
    return gather(picked, table.schema)
