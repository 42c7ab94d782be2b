"""A frontier from recipe to page: every point is made once, a stopped one goes on, what cannot be is refused."""

import json

import pytest

QUICK = ("--no-static", "--predictions", "2")
EXITS, THIN = "--exits", "--thin"  # which most tests leave out: they take long to make


@pytest.fixture
def quick(tiny_expert_folder):
    """Keys for models of one step, from a predecessor that knows its task."""
    return [f"predecessor.path={tiny_expert_folder}", "training.max_steps=1", "plan.solving.tokens=200"]


@pytest.fixture
def draw(command, recipe, quick, tmp_path):
    """Draws it in torch alone, unless told otherwise."""

    def run(*more, depths="2,1", formats=""):
        arguments = ("--depths", depths, "--formats", formats, "--folder", tmp_path / "f", *QUICK)
        arguments = arguments if THIN in more else (*arguments, "--no-thin")
        return command("frontier", recipe, *quick, *(one for one in more if "=" in str(one)), *arguments,
                       *(one for one in more if "=" not in str(one)))  # fmt: skip

    return run


def test_a_frontier_has_every_point_with_score_size_and_speed_and_makes_none_twice(draw, tmp_path):
    result = draw(depths="2", formats="onnx")  # not with exits, whose blocks are a graph each: they are exported alike
    assert result.code == 0, result.err
    table = json.loads((tmp_path / "f" / "table.json").read_text())
    names = [row["name"] for row in table["rows"]]
    formats = ("onnx-fp32", "onnx-int8", "onnx-int8-trimmed")
    expected = [f"{model}-{how}" for model in ("predecessor", "2-layers") for how in ("torch-fp32", *formats)]
    instead = ["tfidf-torch-fp32", *(f"2-layers-truncated-kd-{how}" for how in ("torch-fp32", *formats[1:]))]
    assert names == [*expected, *instead]
    by_name = {row["name"]: row for row in table["rows"]}
    first = by_name["predecessor-torch-fp32"]
    assert (first["kept"], first["smaller"], first["kind"]) == (1.0, 1.0, "predecessor")
    assert first["speedups"]["1"] == {
        size: {"median": 1.0, "low": 1.0, "high": 1.0, "steady": True} for size in ("1", "16")
    }
    for row in table["rows"]:
        assert row["interval"][0] <= row["score"] <= row["interval"][1]
        assert row["size_mb"] > 0
        assert row["speedups"]["1"]["16"]["median"] > 0
    assert by_name["predecessor-onnx-int8"]["size_mb"] < by_name["predecessor-onnx-fp32"]["size_mb"]
    chosen = table["frontier"]["chosen"]
    assert by_name[chosen["smallest"]]["kept_halves"][0] >= 0.99
    assert "fastest within 1% of the predecessor: " in result.out
    page = (tmp_path / "f" / "report.html").read_text()
    assert "score and size" in page
    assert "fastest within 1%" in page
    assert "kept (on the half of dev that chose it " in page
    assert "kept (on the half of dev that chose it " in result.out

    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "f").rglob("*.safetensors")}
    again = draw(depths="2", formats="onnx")
    assert again.code == 0
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "f").rglob("*.safetensors")} == before
    assert json.loads((tmp_path / "f" / "table.json").read_text()) == table


def test_all_blocks_and_those_of_the_deepest_successor_are_thinned(draw, tmp_path):
    result = draw(THIN, depths="2")
    assert result.code == 0, result.err
    rows = {row["name"]: row for row in json.loads((tmp_path / "f" / "table.json").read_text())["rows"]}
    sizes = {name: rows[f"{name}-torch-fp32"]["size_mb"] for name in ("predecessor", "4-layers-thin", "2-layers-thin")}
    assert sizes["predecessor"] > sizes["4-layers-thin"] > sizes["2-layers-thin"]
    assert rows["4-layers-thinner-torch-fp32"]["size_mb"] < sizes["4-layers-thin"]
    config = json.loads((tmp_path / "f" / "models" / "4-layers-thin" / "model" / "config.json").read_text())
    assert config["model_type"] == "plankwise"


def test_another_depth_adds_points_and_leaves_those_that_are_there(draw, tmp_path):
    assert draw(depths="2").code == 0
    made = (tmp_path / "f" / "models" / "2-layers" / "made.json").stat().st_mtime_ns
    assert draw(depths="3,2").code == 0
    rows = {row["model"] for row in json.loads((tmp_path / "f" / "table.json").read_text())["rows"]}
    assert {"3-layers", "2-layers"} <= rows
    assert (tmp_path / "f" / "models" / "2-layers" / "made.json").stat().st_mtime_ns == made


def test_the_predecessor_and_the_deepest_successor_get_exits_once_with_a_patience_that_dev_does_not_choose(
    draw, tmp_path
):
    result = draw(EXITS, depths="3,1")
    assert result.code == 0, result.err
    assert result.out.count("training examples that were kept out") == 2
    models = tmp_path / "f" / "models"
    assert {file.name for file in models.glob("*-exits")} == {"4-layers-exits", "3-layers-exits"}
    for folder in models.glob("*-exits"):
        assert json.loads((folder / "model" / "config.json").read_text())["exits"]["patience"] >= 1
    before = {file: file.stat().st_mtime_ns for file in models.rglob("made.json")}
    (models / "4-layers-exits" / "made.json").unlink()
    assert draw(EXITS, depths="3,1").code == 0
    after = {file: file.stat().st_mtime_ns for file in models.rglob("made.json")}
    assert [file.parent.name for file in before if after[file] != before[file]] == ["4-layers-exits"]


def test_models_are_trimmed_once_to_the_vocabulary_that_the_recipe_asks_for(draw, tiny, tmp_path, monkeypatch):
    from plankwise.frontier import flow, points

    def in_torch(made, formats, *, trimmed):  # exports take long, and are trimmed alike
        yield points.Point(made.entry.name, "torch")
        if made.entry.open_text is None:
            yield points.Point(made.entry.name, "torch", trimmed=True)

    lines, seen, trim = ["a lovely film", "a lovely plot", "a dull film"], [], points.trim

    def look(model, tokenizer, texts, **options):
        seen.append((len(tokenizer), texts[:], options))
        return trim(model, tokenizer, texts, **options)

    monkeypatch.setattr(points, "trim", look)
    monkeypatch.setattr(flow, "list_points", in_torch)
    (tmp_path / "words.txt").write_text("\n".join(lines), "utf-8")
    keys = (f"plan.vocabulary={tmp_path / 'words.txt'}", "plan.vocabulary_min_count=2")
    result = draw(*keys, depths="1", formats="onnx")
    assert result.code == 0, result.err
    assert (
        seen == [(len(tiny.words), lines, {"min_count": 2})] * 3
    )  # the predecessor, its successor, and the truncated one
    rows = {row["name"]: row for row in json.loads((tmp_path / "f" / "table.json").read_text())["rows"]}
    assert (
        rows["1-layer-torch-fp32-trimmed"]["score"] == rows["1-layer-torch-fp32"]["score"]
    )  # of these words none goes


def test_another_recipe_in_the_same_folder_is_refused(draw):
    assert draw(depths="2").code == 0
    result = draw("training.max_steps=2", depths="2")
    assert result.code == 2
    assert "holds the frontier of another recipe; choose another --folder" in result.err


def test_a_budget_that_is_spent_leaves_models_out_and_says_which(draw):
    result = draw("--budget", "0.001s")
    assert result.code == 0, result.err
    assert "the budget is spent; not made: tfidf, 2-layers-truncated-kd, 1-layer" in result.out


def test_an_encoder_of_ones_own_is_fine_tuned_with_its_own_tokenizer(draw, tiny, tmp_path):
    folder = tiny.save_bert(tmp_path / "small", num_hidden_layers=1)
    result = draw("--encoder", folder, depths="1")
    assert result.code == 0, result.err
    rows = {row["name"] for row in json.loads((tmp_path / "f" / "table.json").read_text())["rows"]}
    assert "small-torch-fp32" in rows


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"depths": "4"}, "--depths has 4, but the predecessor has 4 blocks; give 1 to 3"),
        ({"depths": "two"}, "--depths has 'two'; give whole numbers with commas between"),
        (("--within", "lots"), "--within is 'lots'; give a share of the score, for example 1% or 0.01"),
        (("--budget", "soon"), "--budget is 'soon'; give a time with its unit"),
        ({"formats": "onyx"}, "there is no such"),
        (("--predictions", "0"), "--predictions is 0; give 1 or more"),
        (("plan={spans=[[0,1]]}",), "plan.spans and plan.slots fix the depth, which a frontier changes; take them out"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(draw, tmp_path, more, message):
    result = draw(**more) if isinstance(more, dict) else draw(*more)
    assert result.code == 2
    assert message in result.err
    assert not (tmp_path / "f" / "models").exists()
