"""What parts cost in place of a model's block; times are what multiply-adds allow, so that no test depends on the clock."""

import io
import json
from pathlib import Path

import pytest
import torch
import transformers
from rich.console import Console
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2ForSequenceClassification

from plankwise import parts
from plankwise.cli._tables import show_catalogue
from plankwise.core.plan import Plan, Slot
from plankwise.errors import ConfigError
from plankwise.evaluation.latency import Speed
from plankwise.evaluation.multiply_adds import count_fewest
from plankwise.evaluation.size import count_parameters
from plankwise.evaluation.speedup import Speedup
from plankwise.kinds import list_kinds, load_kind
from plankwise.models.plans import assemble, build_successors, take_out
from plankwise.search.catalogue import BLOCK, TABLE, make_catalogue

WIDTH, INNER, WORDS = 32, 64, 40


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A BERT, and a GPT-2 that knows no padding token."""
    folder = tmp_path_factory.mktemp("catalogue")
    torch.manual_seed(0)
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": INNER}
    BertForSequenceClassification(BertConfig(**sizes, vocab_size=WORDS, max_position_embeddings=16)).save_pretrained(
        folder / "bert"
    )
    config = GPT2Config(n_embd=WIDTH, n_layer=2, n_head=4, vocab_size=WORDS, n_positions=16, eos_token_id=None)
    GPT2ForSequenceClassification(config).save_pretrained(folder / "gpt2")
    return folder


@pytest.fixture(autouse=True)
def uncounted_time(monkeypatch):
    """A module takes as many ms as it has multiply-adds, and one more."""

    def measure(predictors, timed, *, batch_sizes, predictions, references, progress):
        inputs = timed.encode([("",)])
        counts = {name: count_fewest(one.module, inputs) for name, one in predictors.items()}
        latency = {name: {"1": {"p50_ms": (count + 1) / 1e5}} for name, count in counts.items()}
        ratios = {name: (counts[other] + 1) / (counts[name] + 1) for name, other in references.items()}
        found = {name: {"1": Speedup(one, one / 2, one * 2, True)} for name, one in ratios.items()}
        progress(1, 1)
        return Speed(latency, found, {}, ratios, counts, {}, {"threads": 1, "device": "cpu"})

    monkeypatch.setattr("plankwise.search.costs.measure_latency", measure)


def find(catalogue, part):
    return next(entry for entry in catalogue.entries if entry.part == part)


def test_each_part_is_listed_with_what_it_costs_in_place_of_the_middle_block(folders):
    told = []
    found = make_catalogue(
        str(folders / "bert"), length=8, batch=2, progress=lambda done, expected: told.append((done, expected))
    )
    assert found.block == "bert.encoder.layer 1"
    assert told == [(1, 1)]
    assert list(dict.fromkeys(entry.part for entry in found.entries)) == [BLOCK, TABLE, *list_kinds("parts")]
    block = find(found, BLOCK)
    tokens, texts = 16, 2
    products = tokens * (4 * WIDTH**2 + 2 * WIDTH * INNER) + 2 * texts * 8 * 8 * WIDTH
    assert (block.multiply_adds, block.multiply_adds_ratio, block.parameters_ratio) == (products, 1.0, 1.0)
    assert block.latency_ratio == {"median": 1.0, "low": 1.0, "high": 1.0, "steady": True}
    linear = find(found, "linear")
    assert linear.parameters == WIDTH**2 + 3 * WIDTH  # a bias, and gain and bias of the norm
    assert linear.multiply_adds == tokens * WIDTH**2
    assert linear.multiply_adds_ratio == tokens * WIDTH**2 / products
    assert linear.parameters_ratio == linear.parameters / block.parameters
    ratio = linear.latency_ratio
    assert ratio["median"] == pytest.approx((linear.multiply_adds + 1) / (products + 1))
    assert ratio["low"] == pytest.approx(ratio["median"] / 2)
    assert (find(found, "identity").parameters, find(found, "identity").multiply_adds) == (0, 0)
    assert find(found, "layers").multiply_adds == find(found, "shared").multiply_adds == products
    assert [entry.options for entry in found.entries if entry.part == "thin"] == load_kind(
        "parts", "thin", key="plan.part"
    ).CANDIDATES
    assert json.loads(json.dumps(found.to_json()))["entries"][0]["replaces"] == BLOCK


def test_parts_inside_a_block_are_counted_with_it_and_embeddings_against_their_table(folders):
    found = make_catalogue(str(folders / "bert"), length=8, batch=1)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folders / "bert")
    before = count_parameters(model)
    block, table = find(found, BLOCK), find(found, TABLE)
    assert table.parameters == WORDS * WIDTH
    for part, path in (("no_attention", "bert.encoder.layer.1.attention"), ("low_rank", None)):
        maps = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")
        inside = [f"bert.encoder.layer.1.{one}" for one in (*maps, "intermediate.dense", "output.dense")]
        plan = Plan(tuple(Slot(one, (), part) for one in ([path] if path else inside)))
        again = transformers.AutoModelForSequenceClassification.from_pretrained(folders / "bert")
        successor = take_out(assemble(again, plan, build_successors(model, plan, init="lower", seed=0)))
        assert find(found, part).parameters - block.parameters == count_parameters(successor) - before
    factorised = find(found, "factorised_embedding")
    width = WIDTH // 2
    assert factorised.parameters == WORDS * width + width * WIDTH
    assert factorised.parameters_ratio == factorised.parameters / table.parameters
    assert (factorised.multiply_adds, factorised.multiply_adds_ratio) == (8 * width * WIDTH, None)
    assert find(found, "define").parameters == table.parameters  # its table is all that is left at collapse


def test_a_part_that_does_not_fit_says_why_in_a_phrase(folders):
    found = make_catalogue(str(folders / "gpt2"), length=8, batch=2)
    own = {path.stem for path in Path(parts.__file__).parent.glob("*.py")}  # not those of plug-ins
    unfit = {entry.label: entry.unfit for entry in found.entries if entry.unfit and entry.part in own}
    assert unfit == {"fixed_attention": "it fits no module inside a GPT2Block"}
    assert find(found, "fixed_attention").parameters is None
    assert find(found, "low_rank").parameters < find(found, BLOCK).parameters


def test_what_cannot_be_measured_is_refused(folders, tmp_path):
    with pytest.raises(ConfigError, match="--length is 17, but the model takes 16 tokens; give 16 or less"):
        make_catalogue(str(folders / "bert"), length=17, batch=1)
    config = transformers.ViTConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16)
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "vit")
    with pytest.raises(ConfigError, match="a ViTForImageClassification does not read tokens"):
        make_catalogue(str(tmp_path / "vit"), length=8, batch=1)


def test_the_command_shows_a_row_a_part_and_gives_json(folders, command):
    result = command("list", "parts", "--model", str(folders / "gpt2"), "--length", "8")
    assert result.code == 0
    assert "in place of transformer.h 1 of" in result.out
    first = [line.split()[0] for line in result.out.splitlines() if line.strip()]
    assert set(list_kinds("parts")) <= set(first)
    assert "fixed_attention does not fit: it fits no module inside a GPT2Block" in result.out
    linear = next(line for line in result.out.splitlines() if line.startswith("linear "))
    assert len(linear.split()) >= 8
    data = json.loads(command("list", "parts", "--model", str(folders / "gpt2"), "--length", "8", "--json").out)
    assert (data["length"], data["batch"]) == (8, 1)
    told = Console(width=80, file=io.StringIO(), record=True)
    show_catalogue({**data, "entries": [{**one, "latency_ms": 12.34} for one in data["entries"]]}, told)
    assert "…" not in told.export_text()  # no figure is cut off


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("methods", "--model", "m"), "which is for parts alone: plankwise list parts --model m"),
        (("parts", "--length", "8"), "give --model, too"),
        (("parts", "--model", "m", "--batch", "0"), "--batch is 0; give 1 or more"),
    ],
)
def test_options_that_mean_nothing_are_refused(command, given, told):
    result = command("list", *given)
    assert result.code == 2
    assert told in result.err
