"""GLUE: nine public tasks on English sentences, from the distributed files or the Hugging Face hub.

Wang et al. 2018, arXiv:1804.07461. Published figures are on the data as they are, so nothing is cleaned by default.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator

from plankwise.data.pieces import Layout
from plankwise.data.source import Source, TaskOptions
from plankwise.data.tables import encode_classes, encode_numbers, listed, read_table
from plankwise.errors import DataError
from plankwise.files import write_text

KIND = "labels"
HUB = "nyu-mll/glue"
BINARY = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")
NLI = ("entailment", "neutral", "contradiction")
PLAIN = {"dev": "dev"}
BOTH_DEVS = {"matched": "dev_matched", "mismatched": "dev_mismatched"}
BOTH_TESTS = {"MNLI-m": "test_matched", "MNLI-mm": "test_mismatched"}
MRPC_TRAIN, MRPC_TEST, MRPC_DEV_IDS = "msr_paraphrase_train.txt", "msr_paraphrase_test.txt", "dev_ids.tsv"


@dataclass(frozen=True)
class Subset:
    """One of the nine tasks: where its columns are, and how it is scored."""

    board: str  # the leaderboard's name
    labels: tuple[str, ...]  # names in the hub's order
    values: tuple[str, ...]  # the same classes as the files write them
    texts: tuple[str, ...]  # columns of train and dev
    label: str = "label"
    metrics: tuple[str, ...] = ("accuracy",)
    score: tuple[str, ...] = ("accuracy",)
    header: bool = True  # of train and dev; test always has one
    test_texts: tuple[str, ...] = ()  # as texts if empty
    hub_texts: tuple[str, ...] = ()  # as texts if empty
    index: str = "index"
    skip_ragged: bool = False

    @property
    def dev_files(self) -> dict[str, str]:
        return BOTH_DEVS if self.board == "MNLI" else PLAIN

    @property
    def test_files(self) -> dict[str, str]:
        return BOTH_TESTS if self.board == "MNLI" else {self.board: "test"}


PAIR = ("sentence1", "sentence2")
QUESTIONS = ("question1", "question2")
WITH_F1 = ("accuracy", "f1")
CORRELATIONS = ("pearson", "spearman")
SUBSETS = {
    "cola": Subset(
        "CoLA", ("unacceptable", "acceptable"), BINARY, ("3",), "1", ("matthews", "accuracy"), ("matthews",),
        header=False, test_texts=("sentence",), hub_texts=("sentence",),
    ),
    "sst2": Subset("SST-2", ("negative", "positive"), BINARY, ("sentence",)),
    "mrpc": Subset(
        "MRPC", ("not_equivalent", "equivalent"), BINARY, ("#1 String", "#2 String"), "Quality", WITH_F1, WITH_F1,
        hub_texts=PAIR,
    ),
    "stsb": Subset("STS-B", (), (), PAIR, "score", CORRELATIONS, CORRELATIONS),
    "qqp": Subset(
        "QQP", ("not_duplicate", "duplicate"), BINARY, QUESTIONS, "is_duplicate", WITH_F1, WITH_F1,
        index="id", skip_ragged=True,
    ),
    "mnli": Subset("MNLI", NLI, NLI, PAIR, "gold_label", hub_texts=("premise", "hypothesis")),
    "qnli": Subset("QNLI", ENTAILMENT, ENTAILMENT, ("question", "sentence")),
    "rte": Subset("RTE", ENTAILMENT, ENTAILMENT, PAIR),
    "wnli": Subset("WNLI", ("not_entailment", "entailment"), BINARY, PAIR),
}  # fmt: skip


class Options(TaskOptions):
    name: Literal["glue"] = Field("glue", description="the kind of task")
    subset: Literal["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli"] = Field(
        description="which of the nine tasks"
    )
    folder: str | None = Field(
        None, description="the subset's folder of distributed files, for example glue/RTE; the hub if absent"
    )
    clean: bool = Field(False, description="drop duplicates, contradicting labels and empty texts")

    @field_validator("subset", mode="before")
    @classmethod
    def _spell_it_our_way(cls, value: Any) -> Any:
        return re.sub("[-_ ]", "", value).lower() if isinstance(value, str) else value


def read(options: Options) -> Source:
    """The training examples and dev set(s) of a subset; MNLI has the dev sets `matched` and `mismatched`.

    Raises:
        DataError: a file is missing or malformed, or the hub cannot be reached.
    """
    subset = SUBSETS[options.subset]
    if options.folder is None:
        train = _from_hub(options, "train")
        dev = {name: _from_hub(options, file.replace("dev", "validation")) for name, file in subset.dev_files.items()}
    elif _is_raw_mrpc(folder := _folder(options), options):
        train, dev = _read_raw_mrpc(folder)
    else:
        train = _read_labelled(folder / "train.tsv", subset)
        dev = {name: _read_labelled(folder / f"{file}.tsv", subset) for name, file in subset.dev_files.items()}
    kind: Literal["classes", "number"] = "classes" if subset.labels else "number"
    return Source(f"glue/{options.subset}", kind, subset.labels, subset.metrics, subset.score, train, dev)


def read_tests(options: Options) -> dict[str, pa.Table]:
    """The unlabelled test set(s) under the leaderboard's file names, with the files' own `id`.

    Raises:
        DataError: a file is missing or malformed, or the hub cannot be reached.
    """
    subset = SUBSETS[options.subset]
    if options.folder is None:
        return {name: _from_hub(options, file) for name, file in subset.test_files.items()}
    if _is_raw_mrpc(folder := _folder(options), options):
        table = _read_columns(folder / MRPC_TEST, subset.texts, subset)
        return {subset.board: _name_texts(table, subset.texts, {"id": pa.array(range(len(table)), pa.int64())})}
    tests = {}
    for name, file in subset.test_files.items():
        path, texts = folder / f"{file}.tsv", subset.test_texts or subset.texts
        table = _read_columns(path, (subset.index, *texts), subset, test=True)
        try:
            ids = table[subset.index].cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise DataError(f"{path.name}: column {subset.index!r} must hold whole numbers: {error}") from None
        tests[name] = _name_texts(table, texts, {"id": ids})
    return tests


def class_names(options: Options) -> tuple[str, ...]:
    """The classes in GLUE's own order; none for STS-B."""
    return SUBSETS[options.subset].labels


def write_submission(path: Path, ids: Sequence[int], predictions: Sequence[float], options: Options) -> None:
    """The leaderboard's TSV, whole or not at all; predictions are class indices, or numbers for STS-B.

    Raises:
        DataError: a prediction is missing, not a class, or not a finite number.
    """
    path, subset = Path(path), SUBSETS[options.subset]
    index, values = np.asarray(ids), np.asarray(predictions)
    if index.shape != values.shape or values.ndim != 1:
        raise DataError(
            f"{path.name}: ids of shape {index.shape} and predictions of shape {values.shape}; give one each"
        )
    if not subset.labels:
        if not np.isfinite(values).all():
            raise DataError(f"{path.name}: a prediction is not a finite number; the model cannot be used")
        written = [f"{value:.3f}" for value in np.clip(values, 0.0, 5.0)]
    else:
        if not np.isin(values, np.arange(len(subset.values))).all():
            raise DataError(f"{path.name}: a prediction is not a class index from 0 to {len(subset.values) - 1}")
        written = [subset.values[int(value)] for value in values]
    lines = [f"{number}\t{text}\n" for number, text in zip(index, written, strict=True)]
    write_text(path, "index\tprediction\n" + "".join(lines))


def _folder(options: Options) -> Path:
    folder, board = Path(options.folder or "").expanduser(), SUBSETS[options.subset].board
    if not folder.is_dir():
        raise DataError(f"task.folder is '{folder}'; there is no such folder: give the one with {board}'s files")
    return folder


def _read_columns(path: Path, columns: Sequence[str], subset: Subset, *, test: bool = False) -> pa.Table:
    if not path.is_file():
        wanted = [f"{name}.tsv" for name in ("train", *subset.dev_files.values(), *subset.test_files.values())]
        also = f" (or {MRPC_TRAIN} and {MRPC_TEST})" if subset.board == "MRPC" else ""
        inner = path.parent / subset.board
        hint = f"; did you mean '{inner}'?" if inner.is_dir() else "; check task.folder"
        raise DataError(f"{path} is missing; {subset.board} is distributed as {listed(wanted)}{also}{hint}")
    return read_table(path, columns, _layout(subset, test=test), key="task.folder")


def _layout(subset: Subset, *, test: bool = False) -> Layout:
    """Every id counts in a test file, so a malformed line in one is an error."""
    return Layout("\t", subset.header or test, quoting=False, skip_ragged=subset.skip_ragged and not test, keys="none")


def _read_labelled(path: Path, subset: Subset) -> pa.Table:
    table = _read_columns(path, (*subset.texts, subset.label), subset)
    return _name_texts(table, subset.texts, {}, {"label": _encode(table[subset.label], path, subset)})


def _encode(labels: pa.ChunkedArray, path: Path, subset: Subset) -> pa.ChunkedArray:
    layout = _layout(subset)
    if not subset.labels:
        return encode_numbers(labels, path, layout)
    fault = f"is not a label of {subset.board} ({listed(subset.values)}); fetch the file again"
    return encode_classes(labels, subset.values, fault, path, layout)


def _name_texts(
    table: pa.Table, columns: Sequence[str], before: dict[str, Any], after: dict[str, Any] | None = None
) -> pa.Table:
    texts = {name: table[column] for name, column in zip(("text", "text_pair"), columns, strict=False)}
    return pa.table({**before, **texts, **(after or {})})


def _is_raw_mrpc(folder: Path, options: Options) -> bool:
    return options.subset == "mrpc" and not (folder / "train.tsv").is_file() and (folder / MRPC_TRAIN).is_file()


def _read_raw_mrpc(folder: Path) -> tuple[pa.Table, dict[str, pa.Table]]:
    """Microsoft's own files: GLUE's dev set is the pairs listed in dev_ids.tsv; to be split off if that is absent."""
    subset, numbers = SUBSETS["mrpc"], ("#1 ID", "#2 ID")
    path = folder / MRPC_TRAIN
    table = _read_columns(path, (*numbers, *subset.texts, subset.label), subset)
    examples = _name_texts(table, subset.texts, {}, {"label": _encode(table[subset.label], path, subset)})
    dev_ids = folder / MRPC_DEV_IDS
    if not dev_ids.is_file():
        return examples, {}
    listed_ids = read_table(
        dev_ids, ("0", "1"), Layout("\t", header=False, quoting=False, keys="none"), key="task.folder"
    )
    wanted = pc.binary_join_element_wise(listed_ids["0"], listed_ids["1"], " ").combine_chunks()
    in_dev = pc.is_in(pc.binary_join_element_wise(table[numbers[0]], table[numbers[1]], " "), value_set=wanted)
    return examples.filter(pc.invert(in_dev)), {"dev": examples.filter(in_dev)}


def _from_hub(options: Options, split: str) -> pa.Table:
    import datasets  # slow to import, and not needed for files

    subset = SUBSETS[options.subset]
    try:
        table = datasets.load_dataset(HUB, options.subset, split=split).with_format("arrow")[:]
    except Exception as error:  # many kinds, of several libraries
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{HUB} cannot be fetched from the Hugging Face hub ({reason}); "
            f"set task.folder to the folder of {subset.board}'s distributed files"
        ) from error
    texts = subset.hub_texts or subset.texts
    if split.startswith("test"):
        return _name_texts(table, texts, {"id": table["idx"].cast(pa.int64())})
    label = table["label"].cast(pa.int64() if subset.labels else pa.float64())
    return _name_texts(table, texts, {}, {"label": label})
