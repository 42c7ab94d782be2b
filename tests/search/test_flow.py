"""A search from recipe to plan: scored, chosen, measured whole, written as a recipe; a stopped one goes on to the same plan."""

import json

import pytest

from plankwise.config import load_config
from plankwise.errors import ConfigError, PlanError, RunError
from plankwise.models.plans import make_plan
from plankwise.report.page import write_report
from plankwise.training.interruption import InterruptedRunError


def times_of(folder):
    return {file.name: file.stat().st_mtime_ns for file in folder.glob("*.json")}


def test_every_part_that_offers_candidates_is_scored_in_every_span_but_a_block_in_place_of_itself(searched):
    library = searched.table["library"]
    by_label = {}
    for one in library:
        by_label.setdefault(one["label"], []).append(tuple(one["span"]))
        assert one["effect"] >= 0
    assert by_label["layers"] == [(0, 1), (1, 2), (2, 3)]
    assert by_label["thin (ffn 0.5)"] == [(0,), (0, 1), (1,), (1, 2), (2,), (2, 3), (3,)]
    assert len(list((searched.written / "candidates").glob("*.json"))) == len(library)


def test_the_plan_is_within_its_budget_and_its_parameters_are_as_predicted(searched):
    for row in searched.table["rows"]:
        assert row["parameters"] == row["predicted"]["parameters"]
    assert searched.found["parameters"] <= 25_000
    finalists = [row for row in searched.table["rows"] if row["kind"] in ("found", "next best")]
    assert searched.found["effect"] == min(row["effect"] for row in finalists)


def test_the_plan_stands_beside_even_late_dropped_and_random_ones(searched):
    kinds = [row["kind"] for row in searched.table["rows"]]
    assert kinds == ["found", "next best", "even", "even", "late", "dropped", "random"]
    dropped = next(row for row in searched.table["rows"] if row["kind"] == "dropped")
    assert not dropped["solved"]
    assert [slot["span"] for slot in dropped["plan"]] == [[1, 2, 3]]


def test_the_predicted_effect_is_the_sum_of_its_candidates(searched):
    known = {(tuple(one["span"]), one["label"]): one["effect"] for one in searched.table["library"]}
    layers = next(row for row in searched.table["rows"] if row["name"] == "even spans, 2 blocks")
    assert layers["predicted"]["effect"] == known[(0, 1), "layers"] + known[(2, 3), "layers"]


def test_the_recipe_that_is_written_is_accepted_and_gives_that_plan(searched, tiny_recipe):
    from transformers import AutoModelForSequenceClassification

    config = load_config(searched.written / "plan.toml", [])
    model = AutoModelForSequenceClassification.from_pretrained(tiny_recipe["predecessor"]["path"])
    plan = make_plan(model, config.plan).to_json()
    assert json.loads(json.dumps(plan)) == searched.found["plan"]
    assert config.run.name == "tiny-planned"
    assert config.plan.solving.tokens == 150
    text = (searched.written / "plan.toml").read_text("utf-8")
    assert text.startswith("# A plan for 25,000 parameters, found by `plankwise plan`")
    assert f"measured {searched.found['effect']:.4f}." in text
    assert text.count("# alone: effect ") == len(plan)
    assert "# - even spans, 2 blocks: effect " in text


def test_what_it_was_compared_with_is_written_as_recipes_too(searched):
    recipes = {file.stem: load_config(file, []) for file in (searched.written / "compared").iterdir()}
    rows = {row["name"]: row for row in searched.table["rows"]}
    assert len(recipes) == len(rows) - 1
    even, dropped = recipes["even-spans-2-blocks"], recipes["top-layers-dropped-2-blocks"]
    assert [slot.span for slot in even.plan.slots] == [[0, 1], [2, 3]]
    assert (even.run.name, even.plan.init) == ("tiny-even-spans-2-blocks", "auto")
    assert dropped.plan.init == "lower"
    assert [slot.span for slot in dropped.plan.slots] == [
        slot["span"] for slot in rows["top layers dropped, 2 blocks"]["plan"]
    ]


def test_the_page_shows_the_library_the_plan_and_the_table(searched, tmp_path):
    page = write_report([searched.written], tmp_path / "report.html").read_text("utf-8")
    assert "What each candidate does alone: bert.encoder.layer" in page
    assert "Effect, predicted and measured" in page
    assert "top layers dropped, 2 blocks" in page


def test_the_same_search_again_and_one_for_another_goal_score_nothing_twice(searched, read_search):
    before = times_of(searched.folder / "candidates")
    again = read_search(searched.folder, parts=("layers", "thin"))
    assert again.found == searched.found
    other = read_search(searched.folder, "target", 1.05, parts=("layers", "thin"))
    assert other.found["predicted"]["speedup"] >= 1.05
    assert times_of(searched.folder / "candidates") == before


def test_a_search_that_was_killed_goes_on_to_the_same_plan(read_search, stopping, tmp_path):
    def search(name, console=None):
        return read_search(
            tmp_path / name, value=30_000.0, console=console
        )  # which leaves one of three spans to replace

    whole = search("whole")
    with pytest.raises(InterruptedRunError):
        search("killed", stopping("candidate 2 of 3"))
    candidates = times_of(tmp_path / "killed" / "candidates")
    assert len(candidates) == 2
    with pytest.raises(InterruptedRunError):
        search("killed", stopping("plan 2: "))
    assert len(times_of(tmp_path / "killed" / "plans")) == 2
    found = search("killed")
    assert found.found["plan"] == whole.found["plan"]
    assert found.found["effect"] == whole.found["effect"]
    assert [one["effect"] for one in found.table["library"]] == [one["effect"] for one in whole.table["library"]]
    kept = times_of(tmp_path / "killed" / "candidates")
    assert {name: kept[name] for name in candidates} == candidates


def test_the_fastest_plan_within_a_share_of_the_score_keeps_that_share(read_search, tmp_path):
    found = read_search(tmp_path / "s", "within", 0.9).found
    before = json.loads((tmp_path / "s" / "table.json").read_text())["search"]["predecessor"]
    assert found["choosing_score"] >= (1 - 0.9) * before["choosing_score"]
    assert found["plan"]


def test_where_no_plan_keeps_the_score_the_mildest_is_named(read_search, tmp_path, monkeypatch):
    from plankwise.search.flow import Search

    monkeypatch.setattr(Search, "_holds", lambda self, measured: False)
    with pytest.raises(
        ConfigError, match=r"--within is 0\.01, but no plan that was tried keeps .* the mildest, 1\..*x as fast"
    ):
        read_search(tmp_path / "s", "within", 0.01)


def test_a_goal_that_no_plan_reaches_is_refused_before_anything_is_scored(read_search, tmp_path):
    with pytest.raises(
        ConfigError, match=r"--target is 100x, but the fastest plan .* give at most \d+\.?\d*x, or offer"
    ):
        read_search(tmp_path / "s", "target", 100.0)
    with pytest.raises(
        ConfigError, match=r"--params is 5,000, but the smallest plan of this library has 21,186, 4,098 of"
    ):
        read_search(tmp_path / "s", "params", 5000.0)
    assert not (tmp_path / "s" / "candidates").exists()


def test_a_size_that_no_plan_of_any_library_has_is_refused_before_the_predecessor_is_trained(read_search, tmp_path):
    with pytest.raises(
        ConfigError,
        match=r"--params is 1,000, but 4,098 of the predecessor's 38,274 parameters are outside of its blocks",
    ):
        read_search(tmp_path / "s", "params", 1000.0)
    with pytest.raises(ConfigError, match=r"--params is 50,000, but the predecessor has 38,274, no more than that"):
        read_search(tmp_path / "s", "params", 50_000.0)
    assert not (tmp_path / "s").exists()


def test_plans_that_do_not_fit_the_model_are_passed_over(searched, read_search, monkeypatch):
    from plankwise.search.whole import Plans

    barred = json.dumps(searched.found["plan"])

    def try_out(self, plan):
        if json.dumps(plan.to_json()) == barred or any(len(slot.span) == 3 for slot in plan.slots):
            raise PlanError("it does not fit")

    monkeypatch.setattr(Plans, "_try_out", try_out)
    found = read_search(searched.folder, parts=("layers", "thin"))
    assert json.dumps(found.found["plan"]) != barred
    kinds = {row["kind"] for row in found.table["rows"]}
    assert kinds == {"found", "next best", "even", "random"}  # late and dropped ones have a span of three
    monkeypatch.setattr("plankwise.search.flow.MOST_TRIED", 2)
    monkeypatch.setattr(Plans, "why_not", lambda self, plan: "it does not fit")
    with pytest.raises(PlanError, match="none of the best 2 plans fits the model; the first: it does not fit"):
        read_search(searched.folder, parts=("layers", "thin"))


def test_another_search_in_the_same_folder_is_refused(searched, read_search):
    with pytest.raises(RunError, match=r"holds a search with another recipe, --tokens or --batch"):
        read_search(searched.folder, tokens=120)


def test_a_part_that_offers_nothing_is_refused_before_anything_is_made(read_search, tmp_path):
    with pytest.raises(ConfigError, match=r"--parts has 'layer'; there is no such part that offers .* mean 'layers'"):
        read_search(tmp_path / "s", parts=("layer",))
    assert not (tmp_path / "s").exists()


def test_a_language_model_is_searched_too(tiny, by_multiply_adds, tmp_path):
    import torch
    from rich.console import Console
    from transformers import BertConfig, BertForMaskedLM

    from plankwise.search.flow import Request, find_plan
    from plankwise.search.goal import Goal

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24}
    config = BertConfig(vocab_size=len(tiny.words), max_position_embeddings=64, initializer_range=0.2, **sizes)
    BertForMaskedLM(config).save_pretrained(tmp_path / "model")
    tiny.save_tokenizer(tmp_path / "model")
    (tmp_path / "corpus.txt").write_text("\n".join(text for text, _ in tiny.make_rows(60)), "utf-8")
    recipe = {
        "predecessor": {"path": str(tmp_path / "model"), "finetune": False},
        "task": {"name": "text", "path": str(tmp_path / "corpus.txt"), "unit": "line"},
        "training": {"max_length": 16, "max_steps": 4},
        "evaluation": {"latency_predictions": 2, "ignore_guards": ["majority"]},
    }
    request = Request(Goal("target", 1.02), spans=2, parts=("layers",), tokens=100, plans=1, random=0)
    table = find_plan(recipe, request, tmp_path / "s", Console(quiet=True))
    assert table["rows"][0]["plan"]
    assert 0 < table["rows"][0]["effect"] < 100
