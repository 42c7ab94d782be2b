"""A tiny classifier, a library of it, and what a search solves it on."""

import json
import shutil
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session")
def tiny_recipe(tmp_path_factory, tiny):
    """A recipe's data for an untrained classifier of four blocks, whose guard is told to let it pass."""
    folder = tmp_path_factory.mktemp("search")
    names = ("negative", "positive")
    model = tiny.save_bert(folder / "model", names=names, initializer_range=0.4)
    return {
        "run": {"name": "tiny"},
        "predecessor": {"path": str(model), "finetune": False},
        "task": {
            "name": "table",
            "train": str(tiny.save_table(folder / "reviews.csv")),
            "text": "sentence",
            "label": "label",
        },
        "plan": {"successors": 3, "solving": {"tokens": 150}},
        "training": {"max_length": 16},
        "evaluation": {
            "latency_predictions": 2,
            "latency_batch_sizes": [2],
            "ignore_guards": ["majority", "label_order"],
        },
    }


@pytest.fixture(scope="module")
def by_multiply_adds():
    """Speed-ups are what multiply-adds allow: tests do not depend on the clock. `thin` offers one candidate."""
    from plankwise.evaluation.latency import Speed
    from plankwise.evaluation.multiply_adds import count_fewest
    from plankwise.evaluation.speedup import Speedup

    def count(predictors, timed, *, batch_sizes, predictions, references=None, **ignored):
        _, texts = timed.middle()
        counts = {name: count_fewest(one.module, timed.encode(texts)) for name, one in predictors.items()}
        if references is None:
            references = {name: "predecessor" for name in predictors if name != "predecessor"}
        ratios = {name: counts[other] / counts[name] for name, other in references.items()}
        found = {name: {str(batch_sizes[0]): Speedup(one, one, one, True)} for name, one in ratios.items()}
        return Speed({}, found, {}, ratios, counts, {}, {"threads": 1, "device": "cpu"})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plankwise.search.costs.measure_latency", count)
        patch.setattr("plankwise.search.whole.measure_latency", count)
        patch.setattr("plankwise.parts.thin.CANDIDATES", [{"ffn": 0.5}])
        yield


@pytest.fixture(scope="module")
def read_search(tiny_recipe, by_multiply_adds):
    """Searches; gives table.json and the folder."""
    from rich.console import Console

    from plankwise.search.flow import Request, find_plan
    from plankwise.search.goal import Goal

    def run(folder, kind="params", value=25_000.0, console=None, **options):
        options = {"spans": 2, "parts": ("layers",), "tokens": 100, "plans": 2, "random": 1, **options}
        request = Request(Goal(kind, value), **options)
        table = find_plan(json.loads(json.dumps(tiny_recipe)), request, folder, console or Console(quiet=True))
        return SimpleNamespace(table=table, folder=folder, found=table["rows"][0])

    return run


@pytest.fixture(scope="module")
def searched(read_search, tmp_path_factory):
    """A finished search for a size, with two parts; `written` has what it wrote, whatever is searched in its folder later."""
    place = tmp_path_factory.mktemp("searched")
    found = read_search(place / "s", parts=("layers", "thin"))
    shutil.copytree(place / "s", place / "written")
    return SimpleNamespace(**vars(found), written=place / "written")
