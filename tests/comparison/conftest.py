"""Scorers of known labels, and outputs of known classes."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from datasets import Dataset

from plankwise.evaluation.scoring import Scorer
from plankwise.tasks._source import Source


@pytest.fixture(scope="session")
def scorer_of():
    """A scorer of dev sets that are given as lists of labels."""

    def make(*score, order=(), name="words", **dev):
        kind = "number" if score[0] in ("pearson", "spearman") else "classes"
        classes = () if kind == "number" else tuple(f"class {index}" for index in range(3))
        empty = pa.table({"text": [], "label": []})
        source = Source(name, kind, classes, score, score, empty, own_order=order)
        encoded = {key: SimpleNamespace(dataset=Dataset.from_dict({"labels": labels})) for key, labels in dev.items()}
        return Scorer(source, encoded, None, 1)

    return make


@pytest.fixture(scope="session")
def answers():
    """Logits (N, C) of a model that answers these classes."""
    return lambda *classes, num_classes=2: np.eye(num_classes)[list(classes)]


@pytest.fixture(scope="session")
def trained(tmp_path_factory, tiny_model_folder, tiny):
    """A recipe's data whose predecessor has learnt the task already."""
    from rich.console import Console

    from plankwise.config import validate_config
    from plankwise.run import lay_ground

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
        "training": {"max_steps": 4, "batch_size": 8, "max_length": 16, "save_every": 1},
        "evaluation": {"latency_predictions": 1, "latency_batch_sizes": [2, 1]},
    }
    ground = lay_ground(validate_config(data), Console(quiet=True))
    return {**data, "predecessor": {"path": ground.path}}


@pytest.fixture
def given(trained):
    """The same, a copy to change."""
    import copy

    return copy.deepcopy(trained)
