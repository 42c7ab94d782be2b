from pathlib import Path

import pytest

from plankwise.config import load_config, validate_config
from plankwise.data.split import prepare
from plankwise.errors import ConfigError, DataError
from plankwise.tasks import germeval

RECIPES = Path(__file__).parents[2] / "recipes" / "thesis"
TRAIN, GOLD = "germeval2019.training_subtask1_2_korrigiert.txt", "germeval2019GoldLabelsSubtask1_2.txt"
TRAIN_ROWS = '"na und, sagt er\tOTHER\tOTHER\nübel, so "\tOFFENSE\tABUSE\nMist\tOFFENSE\tPROFANITY\n'
GOLD_ROWS = "Esel\tOFFENSE\tINSULT\nguten Tag\tOTHER\tOTHER"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / TRAIN).write_text(TRAIN_ROWS, "utf-8")
    (tmp_path / GOLD).write_text(GOLD_ROWS, "utf-8")
    return tmp_path


def test_both_files_are_pooled_and_quotes_are_text(folder):
    source = germeval.read(germeval.Options(folder=str(folder)))
    assert source.train.to_pydict() == {
        "text": ['"na und, sagt er', 'übel, so "', "Mist", "Esel", "guten Tag"],
        "label": [0, 1, 1, 1, 0],
    }
    assert source.dev == {}
    assert source.labels == ("OTHER", "OFFENSE")
    assert (source.score, source.metrics) == (("macro_f1",), ("macro_f1", "f1", "roc_auc", "accuracy"))


def test_fine_labels_are_four_classes_without_f1_of_one(folder):
    source = germeval.read(germeval.Options(folder=str(folder), grain="fine"))
    assert source.labels == ("OTHER", "PROFANITY", "INSULT", "ABUSE")
    assert source.train["label"].to_pylist() == [0, 3, 1, 2, 0]
    assert source.metrics == ("macro_f1", "roc_auc", "accuracy")


def test_without_pooling_dev_is_the_gold_file(folder):
    source = germeval.read(germeval.Options(folder=str(folder), pool=False))
    assert source.train["text"].to_pylist() == ['"na und, sagt er', 'übel, so "', "Mist"]
    assert {name: table["text"].to_pylist() for name, table in source.dev.items()} == {"dev": ["Esel", "guten Tag"]}


def test_what_a_run_keeps_is_the_thesis_cleaning_and_split(folder):
    rows = [f"wort {index}\t{('OTHER', 'OFFENSE')[index % 2]}\tOTHER" for index in range(10)]
    wrong = ["wort 0\tOTHER\tOTHER", "zwei\tOTHER\tOTHER", "zwei\tOFFENSE\tABUSE", " \tOTHER\tOTHER"]
    (folder / TRAIN).write_text("\n".join(rows), "utf-8")
    (folder / GOLD).write_text("\n".join(wrong), "utf-8")
    options = germeval.Options(folder=str(folder))
    prepared = prepare(germeval.read(options), options, seed=0)
    assert (prepared.train.num_rows, prepared.dev["dev"].num_rows) == (8, 2)
    assert sorted(prepared.dev["dev"]["label"].to_pylist()) == [0, 1]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(DataError, match=r"task.folder is '.*nowhere'; there is no such folder: give the one with Germ"):
        germeval.read(germeval.Options(folder=str(tmp_path / "nowhere")))


@pytest.mark.parametrize(("name", "pattern"), [(TRAIN, "germeval2019*training*"), (GOLD, "germeval2019*gold*")])
def test_a_missing_file_is_named_by_its_pattern(folder, name, pattern):
    (folder / name).rename(folder / name.replace("1_2", "3"))
    with pytest.raises(DataError, match=r"no file is named like ") as caught:
        germeval.read(germeval.Options(folder=str(folder)))
    assert pattern in str(caught.value)


def test_two_files_that_fit_are_refused(folder):
    (folder / TRAIN.replace("_korrigiert", "")).write_text(TRAIN_ROWS, "utf-8")
    with pytest.raises(DataError, match=r"2 files fit \(germeval2019.training_subtask1_2.txt, .*korrigiert.txt\)"):
        germeval.read(germeval.Options(folder=str(folder)))


@pytest.mark.parametrize(
    ("grain", "known"), [("coarse", "OTHER, OFFENSE"), ("fine", "OTHER, PROFANITY, INSULT, ABUSE")]
)
def test_an_unknown_label_is_found_with_its_line(folder, grain, known):
    (folder / GOLD).write_text("a\tOTHER\tOTHER\nb\tOFENSE\tABUS\n", "utf-8")
    with pytest.raises(DataError, match=rf"{GOLD} line 2: label '(OFENSE|ABUS)' is not one of {known}; fetch"):
        germeval.read(germeval.Options(folder=str(folder), grain=grain))


def test_there_is_no_test_set(folder):
    with pytest.raises(DataError, match=r"has no unlabelled test set; set task.pool = false"):
        germeval.read_tests(germeval.Options(folder=str(folder)))


def test_the_folder_is_needed():
    with pytest.raises(ConfigError, match=r"task.folder is missing; it is needed: folder of the training"):
        validate_config({"task": {"name": "germeval"}})


@pytest.mark.parametrize(("recipe", "task"), [("germeval", "germeval"), ("mimic", "mimic"), ("nohate", "table")])
def test_the_thesis_recipes_have_its_settings(recipe, task):
    config = load_config(RECIPES / f"{recipe}.toml", [])
    training, schedule = config.training, config.method.schedule
    assert config.task.name == task
    assert (config.task.clean, config.task.dev_share) == (True, 0.2)
    assert (training.batch_size, training.max_length, training.learning_rate, training.epochs) == (16, 512, 2e-5, 15)
    assert (schedule.start, schedule.full_at, config.plan.init) == (0.1, 0.85, "lower")
