"""The frontier of every kind of task, found by its file, plug-ins included, on the tiny examples of `example_KIND.py`."""

from types import SimpleNamespace

import pytest
from rich.console import Console

from kind_examples import find_example
from plankwise.frontier import flow
from plankwise.frontier.points import Point
from plankwise.kinds import list_kinds
from plankwise.report.page import write_report

KINDS = list_kinds("task_kinds")
EVERY_KIND = pytest.mark.parametrize("name", KINDS)
EXPORTED = "predecessor-onnx-fp32"
EXPORTING = ("answers", "embedding", "tokens", "translation")  # kinds that are asked for ONNX: that takes long, too
ALL_MODELS = ("embedding",)  # kinds whose other models are made, too: that takes long


@pytest.fixture(scope="module")
def drawn(tmp_path_factory, tiny_model_folder):
    """Draws, by its name, a kind's frontier, once each: of models of one step in torch, and of the predecessor in ONNX."""
    made: dict[str, SimpleNamespace] = {}

    def few_points(one, formats, *, trimmed):
        yield Point(one.entry.name, "torch")
        if formats and one.entry.name == "predecessor":
            yield Point("predecessor", formats[0])

    def draw(name: str) -> SimpleNamespace:
        if name not in made:
            folder, example = tmp_path_factory.mktemp(name), find_example(name)
            model = example.model(folder / "model") if hasattr(example, "model") else tiny_model_folder
            steps = {"max_steps": 1, "batch_size": 8}
            recipe = {
                "task": example.section(folder),
                "predecessor": {"path": str(model), "training": {**steps, "max_steps": 30, "learning_rate": 5e-3}},
                "training": {**steps, "max_length": 24},
                "plan": {"solving": {"tokens": 200}},
                "evaluation": {"ignore_guards": ["majority"]},
            }
            budget = None if name in ALL_MODELS else 0.001  # seconds: one successor, and no more
            formats = ("onnx",) if name in EXPORTING else ()
            request = flow.Request(depths=(1,), formats=formats, thin=False, predictions=1, budget=budget)
            with open(folder / "out", "w") as out, pytest.MonkeyPatch.context() as patch:
                patch.setattr(flow, "list_points", few_points)
                table = flow.draw_frontier(recipe, request, folder / "f", Console(file=out, width=200))
            made[name] = SimpleNamespace(folder=folder / "f", table=table, out=(folder / "out").read_text())
        return made[name]

    return draw


@EVERY_KIND
def test_each_model_is_scored_and_timed_and_the_predecessor_keeps_all_of_itself(name, drawn):
    one = drawn(name)
    rows = {row["name"]: row for row in one.table["rows"]}
    assert {"predecessor-torch-fp32", "1-layer-torch-fp32"} <= rows.keys()
    assert "failed" not in one.out
    assert rows["predecessor-torch-fp32"]["kept"] in (None, 1.0)
    for row in rows.values():
        assert row["size_mb"] > 0
        assert row["speedups"]["1"]["16"]["median"] > 0
        assert row["interval"] is None or row["interval"][0] - 1e-9 <= row["score"] <= row["interval"][1] + 1e-9
    left_out = one.table["frontier"]["left_out"]
    assert all(f"left out: {sentence}\n" in one.out for sentence in left_out)
    if EXPORTED in rows:
        assert rows[EXPORTED]["score"] == pytest.approx(rows["predecessor-torch-fp32"]["score"], abs=1e-3)
    else:
        assert name not in EXPORTING or any(sentence.startswith("onnx, since ") for sentence in left_out)


def test_vectors_are_scored_by_the_predecessors_own_and_static_embeddings_give_vectors_too(drawn):
    rows = {row["name"]: row for row in drawn("embedding").table["rows"]}
    assert rows["predecessor-torch-fp32"]["score"] == rows["predecessor-torch-fp32"]["kept"] == 1.0
    assert rows["predecessor-torch-fp32"]["interval"] == [1.0, 1.0]
    assert 0 < rows["static-torch-fp32"]["score"] < 1
    assert rows["static-torch-fp32"]["kept_halves"] is not None
    assert "tfidf-torch-fp32" not in rows


def test_perplexity_is_shown_for_a_language_model_whose_score_is_another_figure(drawn):
    one = drawn("text")
    assert one.table["frontier"]["shown"]["metric"] == "perplexity"
    for row in one.table["rows"]:
        assert row["shown"] == pytest.approx(1 / row["score"])
        assert row["shown_interval"][0] <= row["shown"] <= row["shown_interval"][1]
    write_report([one.folder], one.folder / "report.html")
    assert "perplexity on dev (lower is better)" in (one.folder / "report.html").read_text("utf-8")
