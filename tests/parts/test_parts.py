"""The contract of every part, found by its file, plug-ins included, with the options it has by default."""

import copy
import json
import subprocess
import sys

import pytest
import torch
from datasets import Dataset
from rich.console import Console
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

import plankwise
from plankwise.config import FitOptions, PlanOptions
from plankwise.context import Context
from plankwise.core.hybrid import Rules
from plankwise.core.plan import Plan
from plankwise.core.schedule import Constant
from plankwise.data.encode import Encoded
from plankwise.errors import ConfigError, PlanError
from plankwise.kinds import list_kinds, load_kind
from plankwise.models.plans import build_successors, make_plan
from plankwise.models.saving import save
from plankwise.parts import REPLACEABLE, STARTS, PartOptions
from plankwise.training.fitting import fit
from plankwise.training.ship import launch
from plankwise.training.stage import Stage

PARTS = {name: load_kind("parts", name, key="plan.part") for name in list_kinds("parts")}
# For what a part replaces, a plan of at least two slots; parts of blocks replace two blocks each.
PLANS = {
    "any": {"successors": 2},
    "blocks": {"successors": 2},
    "linear": {"slots": [{"path": "bert.encoder.layer.*.intermediate.dense"}]},
    "embedding": {
        "slots": [{"path": "bert.embeddings.word_embeddings"}, {"path": "bert.embeddings.position_embeddings"}]
    },
    "module": {"slots": [{"path": "bert.encoder.layer.*.attention"}]},
}
EVERY_PART = pytest.mark.parametrize("name", PARTS)


def make_model():
    torch.manual_seed(0)
    sizes = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2}
    return BertForSequenceClassification(
        BertConfig(**sizes, intermediate_size=24, max_position_embeddings=20, num_labels=3)
    ).eval()


def plan_for(name, model) -> Plan:
    return make_plan(model, PlanOptions(part=name, **PLANS[PARTS[name].REPLACES]))


def make_ship(name, *, init="lower", shared=False):
    """The hybrid of a tiny model, in successor mode; if `shared`, the first successor stands in the last slot too."""
    model = make_model()
    plan = plan_for(name, model)
    successors = build_successors(model, plan, init=init, seed=0)
    if shared:
        successors[-1] = successors[0]
    ship = launch(model, plan, successors, Constant(rate=1), seed=0, unfreeze="nothing", rules=Rules())
    ship.begin(1)
    return ship.eval()


def make_inputs():
    """Two texts; the second has three tokens of padding."""
    torch.manual_seed(1)
    ids = torch.randint(1, 20, (2, 9))
    mask = torch.ones_like(ids)
    ids[1, 6:] = 0
    mask[1, 6:] = 0
    return {"input_ids": ids, "attention_mask": mask}


@torch.no_grad()
def logits(model, inputs=None):
    return model(**(inputs or make_inputs())).logits


def same_state(one, other):
    one, other = one.state_dict(), other.state_dict()
    return one.keys() == other.keys() and all(torch.equal(value, other[key]) for key, value in one.items())


def shared_names(model):
    """The names of each parameter that has several."""
    names = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return sorted(group for group in names.values() if len(group) > 1)


@EVERY_PART
def test_a_part_says_what_it_replaces_and_describes_its_options_which_all_have_defaults(name):
    part = PARTS[name]
    assert part.REPLACES in REPLACEABLE
    assert part.REPLACES in PLANS
    assert issubclass(part.Options, PartOptions)
    part.Options()
    assert all(field.description for field in part.Options.model_fields.values())


@EVERY_PART
def test_an_option_that_a_part_does_not_have_is_refused(name):
    with pytest.raises(ConfigError, match=r"plan\.options\.no_such_option: there is no such key"):
        build_successors(
            model := make_model(),
            make_plan(model, PlanOptions(part=name, options={"no_such_option": 1}, **PLANS[PARTS[name].REPLACES])),
            init="lower",
            seed=0,
        )


@EVERY_PART
def test_a_start_that_nobody_knows_is_refused(name):
    if not hasattr(PARTS[name], "start"):
        pytest.skip("the part starts by no rule")
    model = make_model()
    with pytest.raises(PlanError, match=r"plan\.init is 'lowre'.*Did you mean 'lower'"):
        build_successors(model, plan_for(name, model), init="lowre", seed=0)


@EVERY_PART
@pytest.mark.parametrize("init", STARTS)
def test_successors_start_from_the_seed_alone_and_the_model_is_only_read(name, init):
    model = make_model()
    before = copy.deepcopy(model)
    one, other = (build_successors(model, plan_for(name, model), init=init, seed=3) for _ in range(2))
    assert all(same_state(a, b) for a, b in zip(one, other, strict=True))
    assert same_state(model, before)
    own = {parameter.data_ptr() for parameter in model.parameters()}
    assert not [parameter for module in one for parameter in module.parameters() if parameter.data_ptr() in own]


@EVERY_PART
def test_successors_are_on_the_models_device(name):
    model = make_model().to("meta")
    built = build_successors(model, plan_for(name, model), init="lower", seed=0)
    assert {parameter.device.type for module in built for parameter in module.parameters()} == {"meta"}


@EVERY_PART
def test_a_successor_gives_a_state_of_its_slots_shape(name):
    ship = make_ship(name)
    with ship.paired() as slots:
        logits(ship)
        assert slots
        for slot in slots:
            assert slot.pair.successor.shape == slot.pair.span.shape
            assert slot.pair.successor.isfinite().all()


@EVERY_PART
def test_padding_does_not_matter(name):
    ship, inputs = make_ship(name), make_inputs()
    alone = {key: value[1:, :6] for key, value in inputs.items()}
    torch.testing.assert_close(logits(ship, inputs)[1:], logits(ship, alone))


@EVERY_PART
def test_each_parameter_of_a_successor_gets_a_gradient(name):
    ship = make_ship(name)
    ship.train()
    with ship.masked(True):
        ship(**make_inputs(), labels=torch.tensor([0, 2])).loss.backward()
    missing = [
        key
        for key, parameter in ship.successor_parameters().items()
        if parameter.grad is None or not parameter.grad.abs().sum() > 0
    ]
    # Attention is unchanged by what is added to all keys alike.
    assert not [key for key in missing if not key.endswith("key.bias")]


@EVERY_PART
@pytest.mark.parametrize("shared", [False, True])
def test_collapse_is_equal_to_the_bit_and_keeps_what_is_shared(name, shared):
    ship = make_ship(name, shared=shared)
    successor = ship.collapse()
    assert torch.equal(logits(successor), logits(ship))
    assert len(shared_names(successor)) == (
        len(list(ship.get_submodule(ship.plan.slots[0].places[0]).successor.parameters())) if shared else 0
    )
    assert sum(one.numel() for one in successor.parameters()) == sum(
        {id(one): one.numel() for key, one in ship.named_parameters() if ".block." not in key}.values()
    )


@EVERY_PART
def test_a_collapsed_successor_can_be_trained_and_what_is_shared_stays_so(name):
    successor = make_ship(name, shared=True).collapse().train()
    before = shared_names(successor)
    optimiser = torch.optim.SGD(successor.parameters(), lr=0.1)
    successor(**make_inputs(), labels=torch.tensor([0, 2])).loss.backward()
    optimiser.step()
    assert shared_names(successor) == before
    assert all(
        torch.equal(successor.state_dict()[group[0]], successor.state_dict()[other])
        for group in before
        for other in group
    )


@EVERY_PART
def test_successors_can_be_fitted_to_their_spans(name, tmp_path, tiny):
    model = make_model()
    plan = plan_for(name, model)
    successors = build_successors(model, plan, init="random", seed=0)
    before = copy.deepcopy(model)
    texts = make_texts()
    tiny.save_tokenizer(tmp_path / "tokenizer")
    stage = Stage(
        name="fitting",
        train=texts,
        score=lambda model: {},
        tokenizer=AutoTokenizer.from_pretrained(tmp_path / "tokenizer"),
        options=FitOptions(max_steps=12, batch_size=8, learning_rate=1e-2, evaluate_every=12),
        folder=tmp_path / "checkpoints",
        context=Context(Console(quiet=True), tmp_path),
    )
    fitted = fit(model, plan, successors, stage, texts)
    assert fitted.stage.steps == 12
    assert all(after < before for after, before in zip(fitted.after, fitted.before, strict=True))
    assert same_state(model, before)


def make_texts() -> Encoded:
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randint(1, 20, (length,), generator=generator).tolist() for length in (3, 4, 6, 8) * 6]
    lengths = [len(row) for row in rows]
    columns = {"input_ids": rows, "attention_mask": [[1] * length for length in lengths]}
    return Encoded(Dataset.from_dict(columns), lengths, 0)


LOADER = """
import copy, json, sys, torch
import plankwise
from transformers import AutoModel, AutoModelForSequenceClassification

folder, names = sys.argv[1], json.loads(sys.argv[2])
inputs = torch.load(f"{folder}/inputs.pt")


def shared(model):
    names = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return sorted(group for group in names.values() if len(group) > 1)


def look(model):
    # A copy: weights that are mapped from a file may be unaligned, and then differ in the last bit of a product.
    own = copy.deepcopy(model).eval()
    with torch.no_grad():
        output = own(**inputs)
    logits = output.logits if "logits" in output else output.last_hidden_state
    return {"state": model.state_dict(), "logits": logits, "shared": shared(model), "copied": shared(own)}


found = {}
for name in names:
    path = f"{folder}/{name}"
    found[name] = {
        "load": look(plankwise.load(path)),
        "auto": look(AutoModelForSequenceClassification.from_pretrained(path)),
        "base": look(AutoModel.from_pretrained(path)),
    }
    again = AutoModelForSequenceClassification.from_pretrained(path)
    again.save_pretrained(f"{path}-again")
    found[name]["again"] = look(plankwise.load(f"{path}-again"))
torch.save(found, f"{folder}/found.pt")
"""


@pytest.fixture(scope="module")
def reloaded(tmp_path_factory):
    """Each part's successor, without and with a shared module, and what a process of its own loaded from its folder."""
    folder = tmp_path_factory.mktemp("parts")
    saved = {}
    for name in PARTS:
        for shared in (False, True):
            successor = make_ship(name, shared=shared).collapse()
            saved[f"{name}-{shared}"] = successor
            save(successor, folder / f"{name}-{shared}")
    torch.save(make_inputs(), folder / "inputs.pt")
    call = [sys.executable, "-c", LOADER, str(folder), json.dumps(list(saved))]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return saved, torch.load(folder / "found.pt")


@EVERY_PART
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("way", ["load", "auto", "again"])
def test_a_process_of_its_own_loads_equal_weights_that_are_shared_as_before(name, shared, way, reloaded):
    saved, found = (one[f"{name}-{shared}"] for one in reloaded)
    found = found[way]
    state = saved.state_dict()
    assert found["state"].keys() == state.keys()
    assert all(torch.equal(value, state[key]) for key, value in found["state"].items())
    assert torch.equal(found["logits"], logits(copy.deepcopy(saved)))
    assert found["shared"] == found["copied"] == shared_names(saved)
    assert bool(found["shared"]) == shared


@EVERY_PART
@pytest.mark.parametrize("shared", [False, True])
def test_the_encoder_alone_is_loaded_with_equal_weights(name, shared, reloaded):
    saved, found = (one[f"{name}-{shared}"] for one in reloaded)
    state = saved.bert.state_dict()
    assert found["base"]["state"].keys() == state.keys()
    assert all(torch.equal(value, state[key]) for key, value in found["base"]["state"].items())
    assert bool(found["base"]["shared"]) == shared


@EVERY_PART
def test_a_successor_is_a_plain_checkpoint_unless_its_part_or_its_sharing_needs_a_plan(name):
    plain, shared = (make_ship(name, shared=shared).collapse() for shared in (False, True))
    assert (plain.config.model_type == "bert") == (type(plain) is BertForSequenceClassification)
    assert shared.config.model_type == "plankwise"
    assert Plan.from_json(shared.config.plan).slots[0].part == name


@EVERY_PART
def test_weights_are_loaded_in_the_precision_that_they_were_saved_in(name, tmp_path):
    successor = make_ship(name, shared=True).collapse().to(torch.bfloat16)
    save(successor, tmp_path / "half")
    loaded = plankwise.load(tmp_path / "half")
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.bfloat16}
    assert loaded.config.dtype == torch.bfloat16
    assert same_state(loaded, successor)


@EVERY_PART
def test_a_familys_own_class_refuses_a_checkpoint_that_needs_a_plan(name, tmp_path):
    save(make_ship(name, shared=True).collapse(), tmp_path / "shared")
    with pytest.raises(AttributeError, match=r"import plankwise and load it by plankwise\.load or an Auto class"):
        BertForSequenceClassification.from_pretrained(tmp_path / "shared")


def test_two_slots_that_share_one_block_are_one_block_in_three_lines_too():
    model = make_model()
    block = copy.deepcopy(model.bert.encoder.layer[0])
    slots = {f"bert.encoder.layer.{index}": block for index in (1, 2)}
    ship = plankwise.hybrid(model, slots=slots).eval()
    successor = ship.collapse()
    layers = successor.bert.encoder.layer
    assert all(a is b for a, b in zip(layers[1].parameters(), layers[2].parameters(), strict=True))
    assert torch.equal(logits(successor), logits(ship))
