import datasets
import numpy as np
import pytest
from pydantic import ValidationError

from plankwise.errors import DataError
from plankwise.tasks import glue

# the layout of each subset's distributed files: header and two rows of train, then of test
PAIR_TEST = "index\tsentence1\tsentence2\n0\ta\tb\n5\tc\td\n"
PAIR_TEXTS = {"text": ["a", "c"], "text_pair": ["b", "d"]}
SINGLE_TEXTS = {"text": ['"say a', "c"]}
MNLI_HEADER = "index\tpromptID\tpairID\tgenre\tsentence1_parse\tsentence1\tsentence2\tlabel1"
STSB_HEADER = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
STSB_CELLS = "g\tf\t2012\t1\ts\ts"
MRPC_HEADER = "#1 ID\t#2 ID\t#1 String\t#2 String"
FILES = {
    "cola": ('gj04\t1\t\t"say a\ngj04\t0\t*\tc\n', 'index\tsentence\n0\t"say a\n5\tc\n'),
    "sst2": ('sentence\tlabel\n"say a\t1\nc\t0\n', 'index\tsentence\n0\t"say a\n5\tc\n'),
    "mrpc": (
        f"\ufeffQuality\t{MRPC_HEADER}\n1\t7\t8\ta\tb\n0\t9\t10\tc\td\n",
        f"\ufeffindex\t{MRPC_HEADER}\n0\t7\t8\ta\tb\n5\t9\t10\tc\td\n",
    ),
    "stsb": (
        f"{STSB_HEADER}\tscore\n0\t{STSB_CELLS}\ta\tb\t5.000\n1\t{STSB_CELLS}\tc\td\t0.25\n",
        f"{STSB_HEADER}\n0\t{STSB_CELLS}\ta\tb\n5\t{STSB_CELLS}\tc\td\n",
    ),
    "qqp": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\ta\tb\t1\n9\tbroken\n4\t5\t6\tc\td\t0\n",
        "id\tquestion1\tquestion2\n0\ta\tb\n5\tc\td\n",
    ),
    "mnli": (
        f"{MNLI_HEADER}\tgold_label\n0\t1\t1n\tg\t()\ta\tb\tneutral\tneutral\n1\t1\t1c\tg\t()\tc\td\tneutral\tcontradiction\n",
        "index\tgenre\tsentence1\tsentence2\n0\tg\ta\tb\n5\tg\tc\td\n",
    ),
    "qnli": (
        "index\tquestion\tsentence\tlabel\n0\ta\tb\tnot_entailment\n1\tc\td\tentailment\n",
        "index\tquestion\tsentence\n0\ta\tb\n5\tc\td\n",
    ),
    "rte": ("index\tsentence1\tsentence2\tlabel\n0\ta\tb\tnot_entailment\n1\tc\td\tentailment\n", PAIR_TEST),
    "wnli": ("index\tsentence1\tsentence2\tlabel\n0\ta\tb\t1\n1\tc\td\t0\n", PAIR_TEST),
}
LABELS = {name: [1, 0] for name in FILES} | {"mnli": [1, 2], "stsb": [5.0, 0.25]}
BOARDS = {"cola": "CoLA", "sst2": "SST-2", "stsb": "STS-B"} | {name: name.upper() for name in ("mrpc", "qqp", "qnli")}
BOARDS |= {"rte": "RTE", "wnli": "WNLI"}
HUB_TEXTS = {
    "cola": ["sentence"],
    "sst2": ["sentence"],
    "qqp": ["question1", "question2"],
    "mnli": ["premise", "hypothesis"],
    "qnli": ["question", "sentence"],
}


@pytest.fixture
def folder(tmp_path):
    def write(subset):
        train, test = FILES[subset]
        kinds = ("_matched", "_mismatched") if subset == "mnli" else ("",)
        (tmp_path / "train.tsv").write_text(train, encoding="utf-8")
        for kind in kinds:
            (tmp_path / f"dev{kind}.tsv").write_text(train, encoding="utf-8")
            (tmp_path / f"test{kind}.tsv").write_text(test, encoding="utf-8")
        return glue.Options(subset=subset, folder=str(tmp_path))

    return write


def texts_of(subset):
    return SINGLE_TEXTS if subset in ("cola", "sst2") else PAIR_TEXTS


@pytest.mark.parametrize("subset", FILES)
def test_each_layout_is_read(folder, subset):
    source = glue.read(folder(subset))
    assert source.train.to_pydict() == {**texts_of(subset), "label": LABELS[subset]}
    assert list(source.dev) == (["matched", "mismatched"] if subset == "mnli" else ["dev"])
    assert all(table.equals(source.train) for table in source.dev.values())
    assert source.kind == ("number" if subset == "stsb" else "classes")


@pytest.mark.parametrize("subset", FILES)
def test_tests_are_named_as_the_leaderboard_names_them_and_keep_their_ids(folder, subset):
    tests = glue.read_tests(folder(subset))
    assert list(tests) == (["MNLI-m", "MNLI-mm"] if subset == "mnli" else [BOARDS[subset]])
    for table in tests.values():
        assert table.to_pydict() == {"id": [0, 5], **texts_of(subset)}


@pytest.mark.parametrize(
    ("subset", "labels", "score"),
    [
        ("cola", ("unacceptable", "acceptable"), ("matthews",)),
        ("sst2", ("negative", "positive"), ("accuracy",)),
        ("mrpc", ("not_equivalent", "equivalent"), ("accuracy", "f1")),
        ("stsb", (), ("pearson", "spearman")),
        ("qqp", ("not_duplicate", "duplicate"), ("accuracy", "f1")),
        ("mnli", ("entailment", "neutral", "contradiction"), ("accuracy",)),
        ("qnli", ("entailment", "not_entailment"), ("accuracy",)),
        ("rte", ("entailment", "not_entailment"), ("accuracy",)),
        ("wnli", ("not_entailment", "entailment"), ("accuracy",)),
    ],
)
def test_labels_and_score_are_the_hubs_and_the_papers(folder, subset, labels, score):
    source = glue.read(folder(subset))
    assert (source.labels, source.score) == (labels, score)
    assert set(score) <= set(source.metrics)


def test_nothing_is_cleaned_unless_asked():
    assert glue.Options(subset="rte").clean is False


@pytest.mark.parametrize(
    ("given", "meant"), [("SST-2", "sst2"), ("sts-b", "stsb"), ("STS_B", "stsb"), ("CoLA", "cola")]
)
def test_a_subset_may_be_spelt_as_the_paper_spells_it(given, meant):
    assert glue.Options(subset=given).subset == meant


def test_another_subset_is_refused():
    with pytest.raises(ValidationError, match="'cola', 'sst2'"):
        glue.Options(subset="squad")


@pytest.mark.parametrize("with_ids", [True, False])
def test_mrpc_is_read_from_microsofts_files(tmp_path, with_ids):
    train, _ = FILES["mrpc"]
    (tmp_path / "msr_paraphrase_train.txt").write_text(train, encoding="utf-8")
    (tmp_path / "msr_paraphrase_test.txt").write_text(train, encoding="utf-8")
    if with_ids:
        (tmp_path / "dev_ids.tsv").write_text("9\t10\n")
    options = glue.Options(subset="mrpc", folder=str(tmp_path))
    source = glue.read(options)
    assert source.train["text"].to_pylist() == (["a"] if with_ids else ["a", "c"])
    assert {name: table["text"].to_pylist() for name, table in source.dev.items()} == (
        {"dev": ["c"]} if with_ids else {}
    )
    assert glue.read_tests(options)["MRPC"].to_pydict() == {"id": [0, 1], **PAIR_TEXTS}


def test_a_missing_file_lists_what_the_layout_expects(tmp_path, folder):
    options = folder("mnli")
    (tmp_path / "dev_mismatched.tsv").unlink()
    with pytest.raises(
        DataError, match=r"dev_mismatched.tsv is missing; MNLI is distributed as train.tsv, dev_matched"
    ):
        glue.read(options)
    with pytest.raises(DataError, match=r"MRPC is .* \(or msr_paraphrase_train.txt and msr_paraphrase_test.txt\)"):
        glue.read(glue.Options(subset="mrpc", folder=str(tmp_path / "..")))
    with pytest.raises(DataError, match=r"task.folder is '.*none'; there is no such folder"):
        glue.read(glue.Options(subset="rte", folder=str(tmp_path / "none")))


def test_the_folder_above_is_answered_with_the_right_one(tmp_path):
    (tmp_path / "RTE").mkdir()
    with pytest.raises(DataError, match=r"did you mean '.*/RTE'"):
        glue.read(glue.Options(subset="rte", folder=str(tmp_path)))


def test_a_label_of_another_task_is_named_with_its_line(tmp_path, folder):
    options = folder("qqp")
    (tmp_path / "dev.tsv").write_text(FILES["qqp"][0].replace("d\t0", "d\t2"))
    with pytest.raises(DataError, match=r"dev.tsv line 4: label '2' is not a label of QQP \(0, 1\)"):
        glue.read(options)


def test_a_malformed_line_in_a_test_file_is_an_error_for_every_id_counts(tmp_path, folder):
    options = folder("qqp")
    (tmp_path / "test.tsv").write_text("id\tquestion1\tquestion2\n0\ta\n1\ta\tb\n")
    with pytest.raises(DataError, match=r"test.tsv line 2: 2 columns"):
        glue.read_tests(options)
    (tmp_path / "test.tsv").write_text("id\tquestion1\tquestion2\nx\ta\tb\n")
    with pytest.raises(DataError, match="column 'id' must hold whole numbers"):
        glue.read_tests(options)


@pytest.mark.parametrize("subset", FILES)
def test_the_hub_gives_the_same_tables_as_the_files(monkeypatch, folder, subset):
    def load(path, name, split):
        assert (path, name) == ("nyu-mll/glue", subset)
        endings = ("_matched", "_mismatched") if subset == "mnli" else ("",)
        assert split in {"train", *(f"{part}{end}" for part in ("validation", "test") for end in endings)}
        columns = HUB_TEXTS.get(subset, ["sentence1", "sentence2"])
        texts = dict(zip(columns, texts_of(subset).values(), strict=True))
        labels = [-1, -1] if split.startswith("test") else LABELS[subset]
        return datasets.Dataset.from_dict({**texts, "label": labels, "idx": [0, 5]})

    monkeypatch.setattr(datasets, "load_dataset", load)
    options, hub = folder(subset), glue.Options(subset=subset)
    assert glue.read(hub) == glue.read(options)
    assert glue.read_tests(hub) == glue.read_tests(options)


def test_a_hub_out_of_reach_asks_for_the_folder(monkeypatch):
    def load(*_, **__):
        raise ConnectionError("no\nnetwork")

    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(DataError, match=r"cannot be fetched from the Hugging Face hub \(no network\); set task.folder"):
        glue.read(glue.Options(subset="rte"))


@pytest.mark.parametrize(
    ("subset", "predictions", "written"),
    [
        ("mnli", [2, 0], ["contradiction", "entailment"]),
        ("qnli", [1, 0], ["not_entailment", "entailment"]),
        ("rte", [1, 0], ["not_entailment", "entailment"]),
        *((name, [1, 0], ["1", "0"]) for name in ("cola", "sst2", "mrpc", "qqp", "wnli")),
        ("stsb", [2.34567, -0.5], ["2.346", "0.000"]),
        ("stsb", [5.5, 5.0], ["5.000", "5.000"]),
    ],
)
def test_a_submission_is_written_as_the_leaderboard_reads_it(tmp_path, subset, predictions, written):
    path = tmp_path / "new" / "X.tsv"
    glue.write_submission(path, [7, 3], np.array(predictions), glue.Options(subset=subset))
    assert path.read_bytes().decode() == f"index\tprediction\n7\t{written[0]}\n3\t{written[1]}\n"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("subset", "predictions", "message"),
    [
        ("rte", [0, 2], "not a class index from 0 to 1"),
        ("rte", [0, 0.5], "not a class index"),
        ("rte", [0], "give one each"),
        ("stsb", [0.0, float("nan")], "not a finite number"),
    ],
)
def test_a_submission_that_cannot_be_right_leaves_the_old_file_alone(tmp_path, subset, predictions, message):
    path = tmp_path / "X.tsv"
    path.write_text("old")
    with pytest.raises(DataError, match=message):
        glue.write_submission(path, [0, 1], predictions, glue.Options(subset=subset))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
