import json

import pytest


def test_the_plan_is_printed_slot_by_slot_and_nothing_is_written(command, recipe, tmp_path):
    before = set(tmp_path.rglob("*"))
    result = command("plan", recipe)
    assert result.code == 0, result.err
    lines = [line.split() for line in result.out.splitlines()]
    assert ["1", "bert.encoder.layer", "0-1", "layers"] in lines
    assert ["2", "bert.encoder.layer", "2-3", "layers"] in lines
    assert "successors start: solved (plan.init = auto, method replacing)" in result.out
    assert "parameters: predecessor 38.3 k, successor 21.2 k" in result.out
    assert "multiply-adds" not in result.out
    assert set(tmp_path.rglob("*")) == before


def test_an_estimate_names_every_phase_memory_and_multiply_adds(command, recipe, tmp_path):
    file = tmp_path / "plan.json"
    result = command("plan", recipe, "--estimate", "--out", file, "method.name=kd")
    assert result.code == 0, result.err
    rows = {line.split()[0] for line in result.out.splitlines() if line.strip()}
    assert rows >= {"predecessor", "targets", "kd", "truncated", "evaluations", "latency", "total"}
    assert "multiply-adds of a prediction, 6 tokens: predecessor" in result.out
    assert "memory at the peak: " in result.out
    found = json.loads(file.read_text("utf-8"))
    assert found["estimate"]["seconds"]["estimated"] > 0
    assert [slot["span"] for slot in found["plan"]] == [[0, 1], [2, 3]]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("estimate", [(), ("--estimate",)])
def test_a_plan_for_text_leaves_no_blocks_behind(estimate, command, tiny, tiny_model_folder, tmp_path):
    corpus, recipe = tmp_path / "corpus.txt", tmp_path / "domain.toml"
    corpus.write_text("\n".join(f"{text}." for text, _ in tiny.make_rows(200)), "utf-8")
    recipe.write_text('[task]\nname = "text"\n', "utf-8")
    before = set(tmp_path.rglob("*"))
    keys = [f"task.path={corpus}", f"predecessor.path={tiny_model_folder}", "training.max_length=16"]
    keys += ["training.max_steps=4", "predecessor.training.max_steps=10", "evaluation.latency=false"]
    result = command("plan", recipe, *estimate, *keys, f"run.folder={tmp_path / 'run'}")
    assert result.code == 0, result.err
    assert ("head" in result.out) == bool(estimate)
    assert set(tmp_path.rglob("*")) == before


def test_a_plan_that_does_not_fit_is_refused_in_one_sentence(command, recipe):
    result = command("plan", recipe, "plan.successors=3")
    assert result.code == 2
    assert "4 blocks (bert.encoder.layer) do not divide into 3 equal spans; choose 1, 2 or 4" in result.err


def test_a_plan_that_makes_nothing_smaller_says_so(recipe, command):
    told = "nothing gets smaller: give fewer plan.successors"
    assert told in " ".join(command("plan", recipe, "plan.successors=4").out.split())
    assert told not in " ".join(command("plan", recipe, "plan.successors=2").out.split())
    assert told not in " ".join(command("plan", recipe, "plan.successors=4", "method.name=qbert").out.split())


@pytest.mark.parametrize(
    ("keys", "start"),
    [
        (["method.name=solve"], "solved"),
        (["plan.init=solved"], "solved"),
        (["plan.init=fitted", "plan.fitting.start=solved"], "fitted, from solved"),
        (["plan.init=fitted"], "fitted, from lower"),
    ],
)
def test_a_start_that_is_computed_is_named_with_what_it_comes_from(command, recipe, keys, start):
    assert f"successors start: {start}\n" in command("plan", recipe, *keys).out


def test_of_a_run_without_training_the_peak_of_memory_is_while_solving(command, recipe, tiny_expert_folder):
    given = f"predecessor.path={tiny_expert_folder}"
    result = command("plan", recipe, "--estimate", "method.name=solve", given)
    assert result.code == 0, result.err
    assert " MB, while solving: weights" in " ".join(result.out.split())
    assert ["solving"] in [line.split()[:-2] for line in result.out.splitlines()]
    assert "truncated" not in result.out


def test_a_plan_that_was_searched_is_written_as_a_recipe_and_shown(command, recipe, tiny_expert_folder, tmp_path):
    keys = (f"predecessor.path={tiny_expert_folder}", "plan.solving.tokens=100")
    quick = ("--parts", "layers", "--spans", "2", "--tokens", "100", "--plans", "1", "--random", "0")
    plan = tmp_path / "found.toml"
    result = command("plan", recipe, *keys, "--params", "30k", *quick, "--folder", tmp_path / "s", "--out", plan)
    assert result.code == 0, result.err
    assert "plan.successors of the recipe not read: a plan is searched for" in result.out
    assert "candidate 3 of 3, bert.encoder.layer 2-3: layers: effect " in result.out
    lines = [line.split() for line in result.out.splitlines()]
    (found,) = (line for line in lines if line[:1] == ["found"])
    assert float(found[-2]) <= 30
    assert f"plan: {plan}; edit it, then: plankwise compress {plan}" in result.out
    assert (tmp_path / "s" / "report.html").is_file()
    shown = command("plan", plan)
    assert shown.code == 0, shown.err
    assert f"successor {found[-2]} k" in shown.out
    told = command("report", tmp_path / "s")
    assert told.code == 0, told.err
    assert "a plan for 30,000 parameters: " in told.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "0.5x"], "--target is '0.5x', which is not faster than the predecessor; give more than 1x"),
        (["--target", "2x", "--within", "1%"], "--target and --within are given"),
        (["--spans", "3"], "--spans is of a search for a plan; give --target, --params or --within, too"),
        (["--target", "2x", "--tokens", "0"], "--tokens is 0; give 1 or more"),
        (["--target", "2x", "--batch", "0"], "--batch is 0; give 1 or more"),
        (["--target", "2x", "--estimate"], "--estimate is of a recipe's own plan; search first"),
    ],
)
def test_a_search_that_cannot_be_is_refused_in_one_sentence(command, recipe, options, message, tmp_path):
    before = set(tmp_path.rglob("*"))
    result = command("plan", recipe, *options)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1
    assert set(tmp_path.rglob("*")) == before


def test_a_model_without_a_chain_is_refused(command, recipe, tiny, tmp_path):
    folder = tiny.save_expert(tmp_path / "short", num_hidden_layers=1)
    result = command("plan", recipe, "--target", "2x", f"predecessor.path={folder}", "--folder", tmp_path / "s")
    assert result.code == 2
    assert "BertForSequenceClassification has no chain: no list of two or more blocks" in result.err
    assert not (tmp_path / "s").exists()
