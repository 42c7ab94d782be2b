import io

import pytest
from rich.console import Console

from plankwise.config import validate_config
from plankwise.models.loading import Loader
from plankwise.task_kinds import read_task


@pytest.fixture
def read(tmp_path, tiny_model_folder):
    """Reads a table task from the texts of its files; gives the task and what was printed."""

    def run(train, dev=None, **options):
        (tmp_path / "train.tsv").write_text(train, "utf-8")
        options |= {"name": "table", "train": str(tmp_path / "train.tsv"), "text": "text", "label": "label"}
        if dev is not None:
            (tmp_path / "dev.tsv").write_text(dev, "utf-8")
            options["dev"] = str(tmp_path / "dev.tsv")
        sections = {"predecessor": {"path": str(tiny_model_folder)}, "training": {"max_length": 16}}
        console = Console(file=io.StringIO(), width=80)
        task = read_task(
            validate_config({**sections, "task": options}), Loader().tokenizer(str(tiny_model_folder)), console
        )
        return task, console.file.getvalue()

    return run


def tsv(*rows):
    return "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows)


STRAY = tsv(('"the film', "good"), ("a plot", "bad"), ('was "fine', "good"), ("dull", "bad"), ("weak", "bad"))


def test_lines_that_quotes_have_joined_are_printed_and_stand_in_the_record(read):
    task, printed = read(STRAY, STRAY, overlap="keep")
    notes = task.describe()["notes"]
    assert [note.partition(",")[0] for note in notes] == [
        "train.tsv: 5 lines became 3 rows",
        "dev.tsv: 5 lines became 3 rows",
    ]
    assert all(f"{note}\n" in printed for note in notes)
    task, printed = read(STRAY, STRAY, overlap="keep", quoting="none")
    assert task.describe()["notes"] == []
    assert "became" not in printed


TRAIN = tsv(("the film", "good"), ("a plot", "bad"), ("was fine", "good"), ("dull", "bad"), ("dull", "bad"))
DEV = tsv(("the film", "good"), ("a plot", "good"), ("weak", "bad"))


def test_train_texts_that_are_in_dev_are_dropped_counted_and_said(read):
    task, printed = read(TRAIN, DEV)
    assert "train: dropped 1 duplicates, 2 that are in dev too (task.overlap = 'keep' keeps them)\n" in printed
    assert task.describe()["dropped"]["train"] == {"empty": 0, "contradicting": 0, "duplicates": 1, "overlap": 2}
    assert (task.describe()["train"], task.describe()["overlap"]) == (2, 2)


def test_train_texts_that_are_in_dev_are_kept_on_request_and_said(read):
    task, printed = read(TRAIN, DEV, overlap="keep")
    assert "train: 2 of 4 examples are in dev too and were kept, as task.overlap says; scores on dev may" in printed
    assert task.describe()["dropped"]["train"]["overlap"] == 0
    assert (task.describe()["train"], task.describe()["overlap"]) == (4, 2)


def test_nothing_is_said_where_train_and_dev_differ(read):
    task, printed = read(TRAIN, tsv(("other", "good"), ("weak", "bad")))
    assert "in dev" not in printed
    assert task.describe()["overlap"] == 0
