"""GermEval 2019 task 2: offensive language in German tweets, from your copy of the organisers' files.

Struß et al. 2019; subtask 1 asks for offence or not (`coarse`), subtask 2 for the kind of offence (`fine`). Quotation marks are
part of the tweets, so there are 7,026 tweets, no two alike. A reader that takes a mark for the start of a quoted field finds only
7,011: one mark is never closed, and 15 lines become part of its field.
"""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pydantic import Field

from plankwise.data.pieces import Layout
from plankwise.data.source import Source, TaskOptions
from plankwise.data.tables import encode_classes, listed, read_table
from plankwise.errors import DataError

KIND = "labels"
TRAIN, GOLD = "germeval2019*training*subtask1_2*.txt", "germeval2019*gold*subtask1_2*.txt"  # in lower case
LAYOUT = Layout("\t", header=False, quoting=False, keys="none")
TEXT, COLUMNS = "0", {"coarse": "1", "fine": "2"}
LABELS = {"coarse": ("OTHER", "OFFENSE"), "fine": ("OTHER", "PROFANITY", "INSULT", "ABUSE")}


class Options(TaskOptions):
    name: Literal["germeval"] = Field("germeval", description="the kind of task")
    folder: str = Field(min_length=1, description="folder of the training and gold-label files of subtask 1 and 2")
    grain: Literal["coarse", "fine"] = Field("coarse", description="offence or not, or four kinds")
    pool: bool = Field(
        True, description="split dev off both files together, as the thesis does; if false dev is the gold-label file"
    )


def read(options: Options) -> Source:
    """The tweets of both files, dev to be split off later, or those of one file each.

    Raises:
        DataError: the folder or a file is missing, or a file is malformed.
    """
    train, gold = (_read_labelled(path, options.grain) for path in _find_files(Path(options.folder).expanduser()))
    labels = LABELS[options.grain]
    return Source(
        name=f"germeval/{options.grain}",
        kind="classes",
        labels=labels,
        metrics=("macro_f1", *(("f1",) if len(labels) == 2 else ()), "roc_auc", "accuracy"),
        score=("macro_f1",),
        train=pa.concat_tables([train, gold]) if options.pool else train,
        dev={} if options.pool else {"dev": gold},
    )


def read_tests(options: Options) -> dict[str, pa.Table]:
    """Always an error: all files have labels.

    Raises:
        DataError: says what to give instead.
    """
    raise DataError(
        "task.name is 'germeval', which has no unlabelled test set; set task.pool = false to measure on the gold-label file, "
        "or predict a file with --table and --text"
    )


def _find_files(folder: Path) -> tuple[Path, Path]:
    if not folder.is_dir():
        raise DataError(f"task.folder is '{folder}'; there is no such folder: give the one with GermEval 2019's files")
    return _find_file(folder, TRAIN), _find_file(folder, GOLD)


def _find_file(folder: Path, pattern: str) -> Path:
    found = sorted(path for path in folder.iterdir() if fnmatchcase(path.name.lower(), pattern))
    if not found:
        raise DataError(f"task.folder is '{folder}', where no file is named like {pattern}; put GermEval's file there")
    if len(found) > 1:
        names = listed([path.name for path in found])
        raise DataError(f"task.folder is '{folder}', where {len(found)} files fit ({names}); leave one of them there")
    return found[0]


def _read_labelled(path: Path, grain: Literal["coarse", "fine"]) -> pa.Table:
    table = read_table(path, (TEXT, COLUMNS[grain]), LAYOUT, key="task.folder")
    fault = f"is not one of {listed(LABELS[grain])}; fetch the file again"
    labels = encode_classes(table[COLUMNS[grain]], LABELS[grain], fault, path, LAYOUT)
    return pa.table({"text": table[TEXT], "label": labels})
