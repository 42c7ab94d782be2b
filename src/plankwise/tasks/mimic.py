"""In-hospital death from admission letters, out of your licensed copy of MIMIC-III (physionet.org).

Johnson et al. 2016. A letter is an admission's discharge summary, cut to the sections known at admission (`_mimic_sections.py`).
Notes that are addenda or marked as errors do not count; of several summaries of one admission the last that has such a
section does, by CHARTDATE, then ROW_ID. An admission without any has an empty letter, which `clean` drops and counts. As in
the thesis, dev is split off by admission, so other stays of a patient may be in train.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator

from plankwise.data.formats import check_columns, read_batches, read_names
from plankwise.data.pieces import Layout, Piece
from plankwise.data.source import Source, TaskOptions
from plankwise.errors import ConfigError, DataError
from plankwise.tasks._mimic_sections import KNOWN_AT_ADMISSION, cut, name_section

KIND = "labels"
ADMISSIONS = ("HADM_ID", "HOSPITAL_EXPIRE_FLAG")
NOTES = ("ROW_ID", "HADM_ID", "CHARTDATE", "CATEGORY", "DESCRIPTION", "ISERROR", "TEXT")


class Options(TaskOptions):
    name: Literal["mimic"] = Field("mimic", description="the kind of task")
    folder: str = Field(min_length=1, description="folder of ADMISSIONS and NOTEEVENTS, .csv or .csv.gz")
    sections: list[str] = Field(
        list(KNOWN_AT_ADMISSION), min_length=1, description="headings of the sections kept; upper or lower case"
    )

    @field_validator("sections")
    @classmethod
    def _no_empty_heading(cls, value: list[str]) -> list[str]:
        names = [name_section(heading) for heading in value]
        if not all(names):
            raise ConfigError(f"task.sections is {value!r}; each heading needs a letter: take the empty one out")
        return names


def read(options: Options) -> Source:
    """A letter and its label for every admission with a discharge summary; dev is split off later.

    Raises:
        DataError: the folder, a file or a column is missing, a flag is not 0 or 1, or no letter is found.
    """
    folder = Path(options.folder).expanduser()
    if not folder.is_dir():
        raise DataError(f"task.folder is '{folder}'; there is no such folder: give the one with MIMIC-III's files")
    admissions_file, notes_file = (_find_file(folder, table) for table in ("ADMISSIONS", "NOTEEVENTS"))
    admissions = _read_admissions(admissions_file)
    letters = _read_letters(notes_file, admissions["HADM_ID"], frozenset(options.sections))
    if letters.num_rows == 0:
        raise DataError(
            f"{notes_file.name} has no discharge summary of an admission in {admissions_file.name}; "
            "give the two files of one release"
        )
    if not pc.any(letters["filled"]).as_py():
        raise DataError(
            f"none of the {letters.num_rows} discharge summaries in {notes_file.name} has a section of task.sections "
            f"({', '.join(options.sections)}); name headings that occur in them"
        )
    letters = _last_of_each(letters)
    rows = pc.index_in(letters["HADM_ID"], value_set=admissions["HADM_ID"].combine_chunks())
    return Source(
        name="mimic",
        kind="classes",
        labels=("survived", "died"),
        metrics=("roc_auc", "macro_f1", "accuracy"),
        score=("roc_auc",),
        train=pa.table({"text": letters["text"], "label": admissions["label"].take(rows)}),
    )


def read_tests(options: Options) -> dict[str, pa.Table]:
    """Always an error: every admission has a label.

    Raises:
        DataError: says what to give instead.
    """
    raise DataError("task.name is 'mimic', which has no test set; predict a file of letters with --table and --text")


def _find_file(folder: Path, table: str) -> Path:
    by_name = {path.name.upper(): path for path in folder.iterdir()}
    for ending in (".CSV", ".CSV.GZ"):
        if table + ending in by_name:
            return by_name[table + ending]
    raise DataError(
        f"task.folder is '{folder}', which has no {table}.csv or {table}.csv.gz; put MIMIC-III's file there"
    )


def _read_admissions(path: Path) -> pa.Table:
    """Columns HADM_ID and label; each admission once."""
    columns = pa.Table.from_batches(_stream(path, ADMISSIONS), pa.schema([(name, pa.string()) for name in ADMISSIONS]))
    ids, flags = _as_key(columns["HADM_ID"]), _as_key(columns["HOSPITAL_EXPIRE_FLAG"])
    codes = pc.index_in(flags, value_set=pa.array(["0", "1"]))
    if codes.null_count:
        row = pc.index(pc.is_null(codes), True).as_py()
        raise DataError(
            f"{path.name}: HOSPITAL_EXPIRE_FLAG of HADM_ID {ids[row]} is {columns['HOSPITAL_EXPIRE_FLAG'][row].as_py()!r}, "
            "but 0 (survived) or 1 (died) is needed; fix it, or fetch the file again"
        )
    if pc.count_distinct(ids).as_py() < len(ids):
        raise DataError(
            f"{path.name} has a HADM_ID more than once; one row per admission is needed: fetch the file again"
        )
    return pa.table({"HADM_ID": ids, "label": codes.cast(pa.int64())})


def _read_letters(path: Path, admissions: pa.ChunkedArray, kept: frozenset[str]) -> pa.Table:
    """The cut discharge summaries of the admissions; only rows that are kept become Python objects."""
    known = admissions.combine_chunks()
    schema = pa.schema(
        {
            "HADM_ID": pa.string(),
            "CHARTDATE": pa.string(),
            "ROW_ID": pa.int64(),
            "filled": pa.bool_(),
            "text": pa.string(),
        }
    )
    found = []
    for batch in _stream(path, NOTES):
        ids = _as_key(batch["HADM_ID"])
        wanted = pc.equal(pc.utf8_trim_whitespace(batch["CATEGORY"]), "Discharge summary")
        wanted = pc.and_(wanted, pc.not_equal(pc.utf8_trim_whitespace(batch["DESCRIPTION"]), "Addendum"))
        wanted = pc.and_(wanted, pc.not_equal(_as_key(batch["ISERROR"]), "1"))
        wanted = pc.and_(wanted, pc.is_in(ids, value_set=known))
        rows = batch.filter(wanted)
        texts = pa.array([cut(text.as_py(), kept) for text in rows["TEXT"]], pa.string())
        filled = pc.not_equal(texts, "")
        numbers = _row_numbers(path, rows["ROW_ID"])
        found.append(pa.table([ids.filter(wanted), rows["CHARTDATE"], numbers, filled, texts], schema=schema))
    return pa.concat_tables(found) if found else schema.empty_table()


def _row_numbers(path: Path, column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise DataError(f"{path.name}: ROW_ID must be a whole number ({error}); fetch the file again") from None


def _last_of_each(letters: pa.Table) -> pa.Table:
    keys = ("HADM_ID", "filled", "CHARTDATE", "ROW_ID")
    order = pc.sort_indices(letters, sort_keys=[(key, "ascending") for key in keys])
    ids = letters["HADM_ID"].take(order).to_numpy()
    return letters.take(order.filter(pa.array(np.append(ids[1:] != ids[:-1], True))))


def _as_key(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A whole number as text; other programs write 1 as 1.0 where a column has gaps."""
    return pc.replace_substring_regex(pc.utf8_trim_whitespace(column), r"\.0+$", "")


def _stream(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The columns, batch after batch, under the names asked for; the file may have them in lower case."""
    piece = Piece(path, Layout(",", keys="none"))
    written = {name.strip().upper(): name for name in read_names(piece)}
    check_columns(path, columns, list(written), "; fetch the file again")
    for batch in read_batches(piece, [written[name] for name in columns]):
        yield batch.rename_columns(list(columns))
