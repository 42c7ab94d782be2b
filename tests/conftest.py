"""Tiny models and tables, built in code: a BERT of 4 layers and width 32 with a vocabulary of a few dozen words."""

import gc
import io
import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parent))  # for `workers` and `stages`, which processes of their own import, too

GOOD = ("fine", "great", "lovely", "superb")
BAD = ("dull", "awful", "boring", "weak")
FILLERS = ("a", "the", "film", "plot", "actor", "scene", "is", "was", "and", "very", "end", "music")
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GOOD, *BAD, *FILLERS)


frozen = 0  # modules that were loaded when libraries were last hidden from the garbage collector


def pytest_runtest_setup() -> None:
    """Hides loaded libraries from the garbage collector: Trainer runs it before each stage, where it took most of the time."""
    global frozen
    if "transformers.trainer" in sys.modules and len(sys.modules) > frozen + 300:
        frozen = len(sys.modules)
        gc.collect()
        gc.freeze()


def pytest_collection_modifyitems(items: list) -> None:
    """Marks tests that send signals to their own process: `make test` gives them a process without other tests."""
    for item in items:
        if "stopping" in getattr(item, "fixturenames", ()):
            item.add_marker("signals")


def make_rows(count: int) -> list[tuple[str, str]]:
    """Distinct texts and their labels: the class is told by the one good or bad word."""
    rows = []
    for index in range(count):
        words = (GOOD, BAD)[index % 2]
        fillers = [FILLERS[(index // 12**power) % 12] for power in range(3)]
        rows.append((f"{' '.join(fillers)} {words[index // 2 % 4]}", ("positive", "negative")[index % 2]))
    return rows


def save_tokenizer(folder: Path) -> None:
    from transformers import BertTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY), "utf-8")
    BertTokenizer(vocab=str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)


def save_bert(folder: Path, *, seed: int = 0, names: tuple[str, ...] | None = None, **changes) -> Path:
    """Saves an untrained BERT with its tokenizer: an encoder, or with `names` a classifier (one name: a number)."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertModel

    sizes = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(**{**sizes, "vocab_size": len(VOCABULARY), "max_position_embeddings": 64, **changes})
    if names is not None:
        config.id2label = dict(enumerate(names))
        config.label2id = {name: index for index, name in enumerate(names)}
    torch.manual_seed(seed)
    (BertModel if names is None else BertForSequenceClassification)(config).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def save_expert(folder: Path, *, names: tuple[str, ...] = ("negative", "positive"), **changes) -> Path:
    """Saves a classifier that is always right on `make_rows`, made by hand: the first block gathers what good and bad words say."""
    import torch
    from transformers import AutoModelForSequenceClassification

    save_bert(folder, names=names, **changes)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        words = model.bert.embeddings.word_embeddings.weight
        words.normal_().sub_(words[:, 1:].mean(1, keepdim=True))
        words[:, 0] = 0.0  # says how good a word is
        words[[VOCABULARY.index(word) for word in GOOD], 0] = 4.0
        words[[VOCABULARY.index(word) for word in BAD], 0] = -4.0
        model.bert.embeddings.position_embeddings.weight.zero_()
        model.bert.embeddings.token_type_embeddings.weight.zero_()
        for block in model.bert.encoder.layer:
            block.attention.output.dense.weight.zero_()
            block.output.dense.weight.zero_()
        first, eye = model.bert.encoder.layer[0].attention, torch.eye(model.config.hidden_size)
        first.self.query.weight.zero_()  # so that each token looks at all of them alike
        for linear in (first.self.value, first.output.dense, model.bert.pooler.dense):
            linear.weight.copy_(eye)
        model.classifier.weight.zero_()
        model.classifier.weight[0, 0], model.classifier.weight[1, 0] = -4.0, 4.0
    model.save_pretrained(folder)
    return folder


def save_table(path: Path) -> Path:
    """48 texts with the columns `sentence` and `label`: negative, positive."""
    path.write_text("sentence,label\n" + "".join(f"{text},{label}\n" for text, label in make_rows(48)), "utf-8")
    return path


def save_recipe(path: Path, table: Path, model: Path) -> Path:
    """A complete recipe for a very short run, whose folder is `run` beside it."""
    path.write_text(
        f"""
        [run]
        folder = {json.dumps(str(path.parent / "run"))}
        [predecessor]
        path = {json.dumps(str(model))}
        training = {{ epochs = 6, learning_rate = 3e-3, batch_size = 8 }}
        [task]
        name = "table"
        train = {json.dumps(str(table))}
        text = "sentence"
        label = "label"
        [plan]
        successors = 2
        [training]
        max_steps = 2
        max_length = 16
        [evaluation]
        latency_predictions = 1
        latency_batch_sizes = [1]
        """,
        "utf-8",
    )
    return path


@pytest.fixture(scope="session")
def tiny():
    """The helpers above, for tests that need a model or a table of their own."""
    helpers = (save_bert, save_expert, save_tokenizer, save_table, save_recipe, make_rows)
    return SimpleNamespace(words=VOCABULARY, **{helper.__name__: helper for helper in helpers})


@pytest.fixture(scope="session")
def tiny_expert_folder(tmp_path_factory) -> Path:
    """A classifier that knows the task of `make_rows`: negative, positive."""
    return save_expert(tmp_path_factory.mktemp("models") / "expert")


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory) -> Path:
    """An encoder without a head."""
    return save_bert(tmp_path_factory.mktemp("models") / "encoder")


@pytest.fixture(scope="session")
def tiny_classifier_folder(tmp_path_factory) -> Path:
    """An untrained classifier: negative, positive."""
    return save_bert(tmp_path_factory.mktemp("models") / "classifier", names=("negative", "positive"))


@pytest.fixture
def table_file(tmp_path) -> Path:
    return save_table(tmp_path / "reviews.csv")


@pytest.fixture
def recipe(tmp_path, table_file, tiny_model_folder) -> Path:
    """A complete recipe for a very short run, whose folder is `run` beside it."""
    return save_recipe(tmp_path / "tiny.toml", table_file, tiny_model_folder)


@pytest.fixture(scope="session")
def postgresql():
    """The URL of a PostgreSQL server of these tests' own; where its programs are missing, they fail, they are not passed over."""
    from databases import postgresql

    with postgresql() as url:
        yield url


class Stopping(io.StringIO):
    """Has this process told to stop by a signal when a text is printed."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__()
        self.text, self.number = text, number

    def write(self, text: str) -> int:
        if self.text in text:
            signal.raise_signal(self.number)
        return super().write(text)


@pytest.fixture
def stopping():
    """A console that has this process told to stop when it prints a text."""
    from rich.console import Console

    return lambda text, number=signal.SIGTERM: Console(file=Stopping(text, number), width=200)


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs the command line in this process; gives the exit code and what was printed."""

    def run(*arguments: object) -> SimpleNamespace:
        from plankwise.cli import main

        monkeypatch.setattr(sys, "argv", ["plankwise", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "80")
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        printed = capsys.readouterr()
        return SimpleNamespace(code=code, out=printed.out, err=printed.err)

    return run


@pytest.fixture
def refusal(command, recipe, tmp_path):
    """Runs the recipe with overrides that must be refused; gives the one sentence that was printed."""

    def refuse(*overrides: str, recipe: Path = recipe) -> str:
        result = command("compress", recipe, *overrides)
        assert result.code == 2, result.out + result.err
        assert not (tmp_path / "run").exists()
        assert result.err.startswith("plankwise: ")
        assert result.err.count("\n") == 1
        return result.err.removeprefix("plankwise: ").strip()

    return refuse
