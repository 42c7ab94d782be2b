"""A distribution of its own adds one kind of each sort by entry points; the whole flow runs with each, in this project's words.

`make test` installs it; elsewhere: pip install --no-deps --no-build-isolation --editable tests/plugin
"""

import contextlib
import copy
import io
import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import SimpleNamespace

import pytest

TESTS = Path(__file__).parent
PROJECT = tomllib.loads((TESTS / "plugin" / "pyproject.toml").read_text("utf-8"))["project"]
KINDS = {group.removeprefix("plankwise."): next(iter(own)) for group, own in PROJECT["entry-points"].items()}
PART, METHOD, TASK, FAMILY, RUNTIME = (KINDS[one] for one in ("parts", "methods", "tasks", "families", "runtimes"))
RANK, WIDTH, INNER, BLOCKS = 3, 32, 64, 4
LOADER = TESTS / "plugin" / "load_in_a_fresh_process.py"

try:
    distribution(PROJECT["name"])
    INSTALLED = True
except PackageNotFoundError:
    INSTALLED = False
installed = pytest.mark.skipif(not INSTALLED, reason="the plug-in is not installed; see the top of this file")


def run(*arguments: object) -> str:
    """What a command prints; it has to succeed."""
    from plankwise.cli import main

    out, code = io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        patch.setattr(sys, "argv", ["plankwise", *map(str, arguments)])
        patch.setenv("COLUMNS", "120")
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    assert code == 0, out.getvalue()
    return out.getvalue()


def write_recipe(folder: Path, model: Path, sections: dict) -> Path:
    import tomli_w

    fast = {"epochs": 6, "learning_rate": 3e-3, "batch_size": 8}
    data = {
        "run": {"folder": str(folder / "run")},
        "predecessor": {"path": str(model), "training": fast},
        "training": {"max_steps": 6, "max_length": 16, "batch_size": 8},
        **sections,
    }
    timing = {"latency_predictions": 1, "latency_batch_sizes": [1]}
    data["evaluation"] = {**timing, **data.get("evaluation", {})}
    path = folder / "recipe.toml"
    path.write_text(tomli_w.dumps(data), "utf-8")
    return path


def follow(recipe: Path, *compare: str) -> SimpleNamespace:
    """The whole flow of a recipe: each command, what it printed, and what it wrote."""
    folder = recipe.parent
    printed = {"plan": run("plan", recipe), "compress": run("compress", recipe)}
    metrics = folder / "metrics.json"
    printed["evaluate"] = run("evaluate", folder / "run" / "successor", "--out", metrics)
    printed["compare"] = run("compare", recipe, "--seeds", 1, "--folder", folder / "compared", *compare)
    printed["report"] = run("report", folder / "run", "--out", folder / "page.html")
    return SimpleNamespace(
        recipe=recipe,
        folder=folder,
        printed=printed,
        record=json.loads((folder / "run" / "record.json").read_text("utf-8")),
        metrics=json.loads(metrics.read_text("utf-8")),
        table=json.loads((folder / "compared" / "table.json").read_text("utf-8"))["tasks"][0],
        page=(folder / "page.html").read_text("utf-8"),
        card=(folder / "run" / "successor" / "README.md").read_text("utf-8"),
        successor=folder / "run" / "successor",
    )


@pytest.fixture(scope="module")
def tagged(tmp_path_factory, tiny):
    """Part, method, kind of task, task and runtime of the plug-in in one run, on a BERT whose tokenizer splits words."""
    from transformers import BertTokenizer

    folder = tmp_path_factory.mktemp("tagged")
    model = tiny.save_bert(folder / "encoder", vocab_size=len(tiny.words) + 1)
    for file in model.glob("*token*"):
        file.unlink()
    (model / "vocab.txt").write_text("\n".join([*tiny.words, "##s"]), "utf-8")
    BertTokenizer(vocab=str(model / "vocab.txt"), model_max_length=64).save_pretrained(model)
    slots = [{"path": "bert.encoder.layer.*.intermediate.dense"}]
    sections = {
        "task": load_example().section(folder),
        "plan": {"part": PART, "options": {"rank": RANK}, "slots": slots},
        "method": {"name": METHOD, "share": 0.34},
        "evaluation": {"runtime": RUNTIME},
    }
    return follow(write_recipe(folder, model, sections), "--methods", f"replacing,{METHOD}")


@pytest.fixture(scope="module")
def staged(tmp_path_factory, tiny):
    """The plug-in's family, with a part, a task and a runtime of the project's own."""
    import torch
    from transformers import AutoConfig, AutoModel

    folder = tmp_path_factory.mktemp("staged")
    sizes = {"d_model": WIDTH, "n_head": 2, "d_head": 16, "d_inner": INNER}
    depths = {"block_sizes": [2, 2], "num_decoder_layers": 1}
    tokens = {"vocab_size": len(tiny.words), "max_position_embeddings": 66, "pad_token_id": 0, "sep_token_id": 3}
    torch.manual_seed(0)
    config = AutoConfig.for_model(FAMILY, **sizes, **depths, **tokens, architectures=[])
    AutoModel.from_config(config).save_pretrained(folder / "encoder")
    tiny.save_tokenizer(folder / "encoder")
    rows = [f"{text},{label}" for text, label in tiny.make_rows(48)]
    (folder / "rows.csv").write_text("\n".join(["sentence,label", *rows]), "utf-8")
    sections = {
        "task": {"name": "table", "train": str(folder / "rows.csv"), "text": "sentence", "label": "label"},
        "plan": {"successors": 1},
        "method": {"name": METHOD},
        "evaluation": {"estimate": False, "truncated": False},
    }
    return follow(write_recipe(folder, folder / "encoder", sections), "--methods", f"finetune,{METHOD}")


def load_example():
    """The plug-in's tiny data, as the contract of every kind of task reads it."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("example", TESTS / "plugin" / f"example_{KINDS['task_kinds']}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_other_file_of_the_project_names_any_of_them():
    names = "|".join([*KINDS.values(), PROJECT["name"], PROJECT["name"].replace("-", "_")])
    known = re.compile(rf"(?<!\w)(?:{names})(?!\w)", re.IGNORECASE)
    own = (TESTS / "plugin", Path(__file__))
    files = [path for folder in (TESTS.parent / "src", TESTS) for path in folder.rglob("*") if path.is_file()]
    others = [path for path in files if not path.is_relative_to(own[0]) and path != own[1] and path.suffix != ".pyc"]
    assert len(others) > 200
    assert not [path for path in others if known.search(path.read_text("utf-8", errors="ignore"))]


@installed
@pytest.mark.parametrize("folder", KINDS)
def test_a_kind_is_one_file_that_is_listed_with_what_it_is(folder):
    from plankwise.kinds import load_kind, summary

    module = load_kind(folder, KINDS[folder], key="list")
    assert module.__name__ == PROJECT["entry-points"][f"plankwise.{folder}"][KINDS[folder]]
    line = next(line for line in run("list", folder).splitlines() if line.startswith(KINDS[folder]))
    assert summary(folder, KINDS[folder]) == module.__doc__.split("\n")[0]
    assert summary(folder, KINDS[folder])[:40] in line


@installed
def test_the_plan_shows_the_parts_slots_and_the_parameters_that_its_options_leave(tagged):
    lines = [line.split() for line in tagged.printed["plan"].splitlines()]
    slots = [f"bert.encoder.layer.{index}.intermediate.dense" for index in range(BLOCKS)]
    assert [line[1:] for line in lines if line and line[-1] == PART] == [[slot, PART] for slot in slots]
    before, after = (tagged.record[name]["parameters"] for name in ("predecessor", "successor"))
    assert before - after == BLOCKS * (WIDTH * INNER - RANK * (WIDTH + INNER))
    assert f"predecessor {before / 1e3:.1f} k, successor {after / 1e3:.1f} k" in tagged.printed["plan"]


@installed
def test_the_record_holds_what_the_plug_in_did(tagged):
    record = tagged.record
    assert [(slot["part"], slot["options"]) for slot in record["plan"]] == [(PART, {"rank": RANK})] * BLOCKS
    assert (record["task"]["kind"], record["task"]["labels"]) == (KINDS["task_kinds"], ["O", "BLAME", "PRAISE"])
    assert record["task"]["dev"] == {"dev": 20}
    own = {name: stage["steps"] for name, stage in record["stages"].items() if name in ("states", "answers")}
    assert own == {"states": 2, "answers": 4}  # 0.34 of 6 steps, and the rest
    assert record["steps"] == 6
    assert record["targets"]["names"] == ["logits", "states"]
    assert record["estimate"]["phases"].keys() >= {"predecessor", "targets", "states", "answers", "truncated"}
    models = [record[name] for name in ("predecessor", "successor", "truncated")]
    assert {model["runtime"] for model in models} == {RUNTIME}
    assert [model["planned"] for model in models] == [False, True, True]
    assert all(0 < model["score"] < 1 for model in models)  # no model can know every tag
    assert record["retained"] == record["successor"]["score"] / record["predecessor"]["score"]
    assert all(model["latency_ms"] > 0 for model in models)


@installed
def test_the_score_is_f1_over_the_words_first_pieces_by_the_plug_ins_runtime(tagged):
    import torch
    from sklearn.metrics import accuracy_score, f1_score
    from transformers import AutoTokenizer

    import plankwise

    tokenizer = AutoTokenizer.from_pretrained(tagged.successor)
    names = tagged.record["task"]["labels"]
    ids, firsts, wanted = [], [], []
    for row in load_example().rows(60)[40:]:
        pieces = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in row["words"]]
        firsts.append([1 + sum(map(len, pieces[:index])) for index in range(len(pieces))])
        inside = [piece for word in pieces for piece in word]
        ids.append({"input_ids": [tokenizer.cls_token_id, *inside, tokenizer.sep_token_id]})
        wanted += [names.index(tag) for tag in row["tags"]]
    assert any(places[-1] > len(places) for places in firsts)  # some words have two pieces
    batch = tokenizer.pad(ids, return_tensors="pt")
    model = plankwise.load(tagged.folder / "run").to(torch.bfloat16)
    with torch.inference_mode():
        predicted = model(**batch).logits.argmax(-1)
    found = [int(tags[place]) for tags, places in zip(predicted, firsts, strict=True) for place in places]
    expected = {
        "f1": f1_score(wanted, found, labels=[1, 2], average="micro"),
        "accuracy": accuracy_score(wanted, found),
    }
    assert tagged.record["successor"]["metrics"] == pytest.approx(expected)
    assert tagged.metrics == pytest.approx({**expected, "score": expected["f1"]})
    assert f"f1        {expected['f1']:.4f}" in tagged.printed["evaluate"]


@installed
def test_methods_are_compared_on_the_plug_ins_kind_of_task_example_by_example(tagged):
    table = tagged.table
    assert table["score"] == ["f1"]
    rows = {row["label"]: row for row in table["rows"]}
    assert list(rows) == ["predecessor", "replacing", METHOD]
    assert all(row["failure"] == "" and 0 < row["median"] < 1 for row in rows.values())
    assert {row["parameters"] for label, row in rows.items() if label != "predecessor"} == {
        tagged.record["successor"]["parameters"]
    }
    assert table["baseline"] == METHOD
    assert 0 < rows["replacing"]["p"] <= 1
    assert rows["replacing"]["difference"] == pytest.approx(rows["replacing"]["median"] - rows[METHOD]["median"])


@installed
def test_page_and_card_show_the_kinds_own_score_and_say_how_the_model_is_loaded(tagged, staged):
    score = tagged.record["successor"]["score"]
    assert f"{score:.4f}" in tagged.page
    assert "of f1" in tagged.printed["report"]
    assert 'pipeline_tag: "token-classification"' in tagged.card
    assert "20 held-out texts" in tagged.card
    assert "import plankwise" in tagged.card
    assert "import plankwise" not in staged.card


@installed
def test_the_family_cuts_its_own_list_and_without_it_the_plan_is_refused(staged, monkeypatch):
    from transformers import AutoConfig, AutoModel

    import plankwise

    config = json.loads((staged.successor / "config.json").read_text("utf-8"))
    assert (config["model_type"], config["block_sizes"]) == (FAMILY, [1, 1])
    record = staged.record
    assert record["successor"]["planned"] is False
    assert staged.metrics["score"] == record["successor"]["score"]
    assert {row["label"]: row["failure"] for row in staged.table["rows"]}[METHOD] == ""
    monkeypatch.setattr("plankwise.kinds.entry_points", lambda group: [])
    model = AutoModel.from_config(AutoConfig.from_pretrained(staged.folder / "encoder"))
    with pytest.raises(plankwise.PlankwiseError, match=r"block_sizes.*add its family's file, families/ or a plug-in's"):
        plankwise.hybrid(model)


@installed
def test_a_successor_is_exported_to_a_format_of_ours_and_to_the_plug_ins(tagged):
    for name, precision in {"onnx": "fp32", KINDS["export"]: "bf16"}.items():
        run("export", tagged.folder / "run", "--to", name, "--precision", precision, "--check", "--tolerance", 0.1)
        assert "f1 " in run("evaluate", tagged.folder / "run" / "export" / f"{name}-{precision}")


@installed
def test_the_method_trains_its_projection_and_throws_it_away(tagged, tmp_path):
    import torch
    from rich.console import Console

    from plankwise.config import load_config
    from plankwise.context import open_context
    from plankwise.kinds import load_kind
    from plankwise.run.inputs import read_inputs
    from plankwise.training.job import Job
    from plankwise.training.stage import Stage

    seen = {}

    class Watched(Stage):
        def run(self, model, *arguments, modules=None, **options):
            before = copy.deepcopy(modules)
            result = super().run(model, *arguments, modules=modules, **options)
            seen[self.name] = (before, modules)
            return result

    config = load_config(tagged.recipe, [f"run.folder={tmp_path}"])
    inputs = read_inputs(config, open_context(Console(quiet=True), tmp_path, 0))

    def stage(name):
        plain = inputs.run.stage(name, config.training)
        return Watched(**{field.name: getattr(plain, field.name) for field in fields(Stage)})

    model = inputs.predecessor.take()
    job = Job(model, inputs.plan, config.plan, 0, 16, inputs.run.task.held_out, stage)
    outcome = load_kind("methods", METHOD, key="method.name").compress(job, config.method)
    assert list(outcome.stages) == list(seen) == ["states", "answers"]
    (before, after), second = seen["states"], seen["answers"]
    assert torch.equal(before["projection"].weight, torch.eye(WIDTH))
    assert not torch.equal(after["projection"].weight, before["projection"].weight)
    assert second == (None, None)
    assert not [name for name in outcome.successor.state_dict() if "projection" in name]


SENTENCE = "the film was greats and the plot is dull"


@pytest.fixture(scope="module")
def fresh(tagged, staged):
    """What a process of its own finds, first without plankwise, then with it."""
    import torch

    out = tagged.folder / "found.pt"
    paths = [tagged.successor, staged.successor, tagged.folder / "run", SENTENCE, out]
    done = subprocess.run([sys.executable, LOADER, *map(str, paths)], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr[-3000:]
    return torch.load(out)


@installed
def test_without_plankwise_a_planned_successor_is_refused_and_a_plain_one_is_loaded(fresh, staged):
    import torch
    from safetensors.torch import load_file

    for name in ("config", "auto", "pipeline"):
        assert "model type `plankwise`" in fresh["refusals"][name], fresh["refusals"][name]
        assert "does not recognize this architecture" in fresh["refusals"][name]
    assert "import plankwise and load it by plankwise.load or an Auto class" in fresh["refusals"]["class"]
    saved = load_file(staged.successor / "model.safetensors")
    assert all(torch.equal(value, fresh["plain"]["state"][name]) for name, value in saved.items())
    assert saved.keys() == fresh["plain"]["state"].keys()


@installed
@pytest.mark.parametrize("way", ["load", "load run", "auto"])
def test_with_plankwise_every_way_loads_the_weights_that_were_saved(way, fresh, tagged):
    import torch
    from safetensors.torch import load_file

    found, saved = fresh[way], load_file(tagged.successor / "model.safetensors")
    assert found["class"] == "BertForTokenClassification"
    assert found["state"].keys() == saved.keys()
    assert all(torch.equal(value, found["state"][name]) for name, value in saved.items())
    first = saved["bert.encoder.layer.0.intermediate.dense.inner.weight"]
    assert first.shape == (RANK, WIDTH)
    assert torch.equal(found["logits"], fresh["load"]["logits"])


@installed
def test_the_pipeline_gives_the_tags_that_the_model_gives(fresh, tagged):
    names = tagged.record["task"]["labels"]
    given = [names[index] for index in fresh["load"]["logits"][0].argmax(-1).tolist()]
    words = fresh["load"]["words"]
    assert "##s" in words
    special = ("[CLS]", "[SEP]")
    expected = [(word, tag) for word, tag in zip(words, given, strict=True) if tag != "O" and word not in special]
    assert fresh["pipeline"] == expected
    assert {"great", "dull"} <= {word for word, _ in expected}


@installed
def test_a_successor_whose_plug_in_is_not_installed_is_refused_by_the_name_of_its_part(tagged, monkeypatch):
    import plankwise

    monkeypatch.setattr("plankwise.kinds.entry_points", lambda group: [])
    with pytest.raises(plankwise.PlankwiseError, match=f"holds the part '{PART}', which is not installed"):
        plankwise.load(tagged.successor)


@installed
def test_a_parts_start_is_the_best_map_of_its_rank_and_the_whole_map_at_full_rank():
    import torch
    from torch import nn

    from plankwise.core.plan import Plan, Slot
    from plankwise.models.plans import build_successors

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 9))
    values = torch.linalg.svdvals(model[0].weight)
    for rank in (1, 4, 6):
        (made,) = build_successors(model, Plan((Slot("0", (), PART, {"rank": rank}),)), init="lower", seed=0)
        missed = made.outer.weight @ made.inner.weight - model[0].weight
        torch.testing.assert_close(missed.norm(), values[rank:].square().sum().sqrt(), atol=1e-5, rtol=1e-4)
        assert torch.equal(made.outer.bias, model[0].bias)
