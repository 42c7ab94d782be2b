"""Tasks of known labels, outputs of known classes, and a recipe whose predecessor has learnt its task."""

import copy

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

QUIET = Console(quiet=True)


@pytest.fixture(scope="session")
def task_of(tiny_model_folder):
    """A task whose dev sets are given as lists of labels."""
    from plankwise.config import RunConfig
    from plankwise.data.source import Source
    from plankwise.data.split import Prepared
    from plankwise.models.loading import Loader
    from plankwise.task_kinds.labels import Labels

    tokenizer = Loader().tokenizer(str(tiny_model_folder))

    def make(*score, order=(), name="words", **dev):
        kind = "number" if score[0] in ("pearson", "spearman") else "classes"
        classes = () if kind == "number" else tuple(f"class {index}" for index in range(3))
        tables = {key: pa.table({"text": ["film"] * len(labels), "label": labels}) for key, labels in dev.items()}
        train = next(iter(tables.values()))
        source = Source(name, kind, classes, score, score, train, tables, own_order=order)
        return Labels(source, Prepared(train, tables, {}), tokenizer, RunConfig(), QUIET)

    return make


@pytest.fixture(scope="session")
def answers():
    """Logits (N, C) of a model that answers these classes."""
    return lambda *classes, num_classes=2: np.eye(num_classes)[list(classes)]


@pytest.fixture(scope="session")
def trained(tmp_path_factory, tiny_model_folder, tiny):
    """A recipe's data whose predecessor has learnt the task already; a cell of it is trained for one step."""
    from plankwise.config import validate_config
    from plankwise.run.sharing import make_predecessor, open_inputs

    folder = tmp_path_factory.mktemp("trained")
    rows = "".join(f"{text},{label}\n" for text, label in tiny.make_rows(48))
    (folder / "films.csv").write_text(f"sentence,label\n{rows}", "utf-8")
    data = {
        "run": {"name": "films", "folder": str(folder / "run")},
        "predecessor": {
            "path": str(tiny_model_folder),
            "training": {"epochs": 6, "learning_rate": 3e-3, "batch_size": 8},
        },
        "task": {"name": "table", "train": str(folder / "films.csv"), "text": "sentence", "label": "label"},
        "training": {"max_steps": 1, "batch_size": 8, "max_length": 16},
        "evaluation": {"latency": False, "latency_predictions": 1, "latency_batch_sizes": [2, 1]},
    }
    ready = make_predecessor(open_inputs(validate_config(data), QUIET))
    return {**data, "predecessor": {"path": ready.path}}


@pytest.fixture
def given(trained):
    """The same, a copy to change."""
    return copy.deepcopy(trained)
