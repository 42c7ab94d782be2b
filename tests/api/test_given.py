import datasets
import pandas
import pyarrow as pa
import pytest
from pyarrow import parquet

from plankwise.api.given import write_examples, write_model
from plankwise.errors import ConfigError, DataError

ROWS = [("a fine film", "good"), ("a dull plot", "bad")]
COLUMNS = {"text": [text for text, _ in ROWS], "label": [label for _, label in ROWS]}
FORMS = {
    "pairs": ROWS,
    "dicts": [dict(zip(("text", "label"), row, strict=True)) for row in ROWS],
    "frame": pandas.DataFrame(COLUMNS),
    "dataset": datasets.Dataset.from_dict(COLUMNS),
    "table": pa.table(COLUMNS),
}


def read(section: dict, key: str = "train") -> dict:
    return parquet.read_table(section[key]).to_pydict()


@pytest.mark.parametrize("form", FORMS)
def test_examples_in_memory_become_a_file_of_the_run(form, tmp_path):
    section = write_examples({"train": FORMS[form]}, tmp_path)
    assert read(section) == COLUMNS
    assert (section["name"], section["text"], section["label"]) == ("table", "text", "label")


def test_the_files_name_says_what_is_in_it(tmp_path):
    names = {write_examples({"train": value}, tmp_path)["train"] for value in (*FORMS.values(), ROWS[:1])}
    assert len(names) == 2
    assert not [path for path in (tmp_path / "given").iterdir() if str(path) not in names]


def test_only_the_columns_that_are_needed_are_written(tmp_path):
    frame = pandas.DataFrame({"id": [1, 2], "said": COLUMNS["text"], "mood": COLUMNS["label"], "secret": ["x", "y"]})
    section = write_examples({"train": frame, "text": "said", "label": "mood", "test": frame[["said"]]}, tmp_path)
    assert list(read(section)) == ["said", "mood"]
    assert list(read(section, "test")) == ["said"]


def test_a_dataset_s_classes_keep_their_names_and_their_order(tmp_path):
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["worse", "better"])}
    )
    data = datasets.Dataset.from_dict({"text": ["b", "a"], "label": [1, 0]}, features=features)
    section = write_examples({"train": data}, tmp_path)
    assert section["labels"] == ["worse", "better"]
    assert read(section)["label"] == ["better", "worse"]


def test_pairs_of_texts_are_told_by_their_number(tmp_path):
    section = write_examples({"train": [("a", "b", "yes"), ("c", "d", "no")]}, tmp_path)
    assert section["text"] == ["text", "text_pair"]
    assert read(section) == {"text": ["a", "c"], "text_pair": ["b", "d"], "label": ["yes", "no"]}


def test_files_stay_where_they_are(tmp_path):
    given = {"name": "table", "train": tmp_path / "train.csv", "text": "sentence", "label": "label"}
    assert write_examples(given, tmp_path) == {**given, "train": str(tmp_path / "train.csv")}
    assert not (tmp_path / "given").exists()


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        ({"train": []}, "task.train is an empty list"),
        ({"train": ["a text"]}, "give dicts with column names, or tuples"),
        ({"train": 5}, "task.train is a int; give a file, a pandas.DataFrame"),
        ({"train": [{"sentence": "a", "label": 1}]}, "has no column 'text'; it has sentence, label"),
        ({"train": ROWS, "name": "glue"}, "task.name is 'glue', but examples are given"),
        ({"train": [("a", 1), ("b", "x")]}, "cannot be read as a table"),
        ({"train": [{"text": "a", "label": "x"}, {"text": "b"}]}, "not every row has text, label"),
    ],
)
def test_what_cannot_be_used_is_said_in_a_sentence(task, sentence, tmp_path):
    with pytest.raises((ConfigError, DataError), match=sentence.replace("(", "\\(")):
        write_examples(task, tmp_path)


def test_a_model_in_memory_is_saved_once_by_its_weights(tiny_expert_folder, tmp_path):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(tiny_expert_folder)
    tokenizer = AutoTokenizer.from_pretrained(tiny_expert_folder)
    first = write_model(model, tokenizer, tmp_path)
    assert write_model(model, tokenizer, tmp_path) == first
    with torch.no_grad():
        model.classifier.bias += 1
    assert write_model(model, tokenizer, tmp_path) != first
    assert len(list((tmp_path / "given").iterdir())) == 2


def test_a_model_without_its_tokenizer_and_a_torch_model_are_refused(tiny_expert_folder, tmp_path):
    import torch
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(tiny_expert_folder)
    with pytest.raises(ConfigError, match="give tokenizer= too"):
        write_model(model, None, tmp_path)
    with pytest.raises(ConfigError, match=r"model is a Linear; .* plankwise\.hybrid"):
        write_model(torch.nn.Linear(2, 2), None, tmp_path)
