import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel

from plankwise.core.plan import Plan, Slot
from plankwise.errors import PlanError
from plankwise.models.plans import build_successors

PATH = "bert.encoder.layer"
THREE = [Slot(PATH, (0, 1)), Slot(PATH, (2, 3)), Slot(PATH, (4, 5))]


def make(layers=6, width=16):
    torch.manual_seed(layers)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=20, hidden_size=width, num_hidden_layers=layers, num_attention_heads=2, intermediate_size=24
        )
    )


def build(model, slots, *, init, seed):
    return build_successors(model, Plan(tuple(slots)), init=init, seed=seed)


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize(
    ("init", "indices"),
    [("first", [0, 1, 2]), ("lower", [0, 2, 4]), ("upper", [1, 3, 5]), ("spread", [0, 2, 5])],
)
def test_each_start_copies_the_blocks_it_names(init, indices):
    model = make()
    built = build(model, THREE, init=init, seed=0)
    blocks = model.bert.encoder.layer
    assert [next(i for i in range(6) if same(part, blocks[i])) for part in built] == indices


def test_spread_takes_the_published_layers_of_twelve():
    model = make(layers=12)
    slots = [Slot(PATH, (i, i + 1)) for i in range(0, 12, 2)]
    built = build(model, slots, init="spread", seed=0)
    found = [next(i for i in range(12) if same(part, model.bert.encoder.layer[i])) for part in built]
    assert found == [0, 2, 4, 7, 9, 11]


def test_mean_is_the_mean_of_the_span():
    model = make()
    weights = [block.output.dense.weight for block in model.bert.encoder.layer]
    built = build(model, [Slot(PATH, (1, 2, 3))], init="mean", seed=0)
    assert torch.equal(built[0].output.dense.weight, torch.stack(weights[1:4]).mean(0))


def test_random_starts_anew_by_the_seed_and_as_the_family_does():
    model = make()
    one, other = (build(model, THREE, init="random", seed=seed) for seed in (0, 0))
    assert all(same(a, b) for a, b in zip(one, other, strict=True))
    assert not same(one[0], build(model, THREE, init="random", seed=9)[0])
    assert not same(one[0], one[1])
    assert not same(one[0], model.bert.encoder.layer[0])
    assert torch.equal(one[0].output.LayerNorm.weight, torch.ones(16))
    assert torch.equal(one[0].output.dense.bias, torch.zeros(16))
    assert 0.01 < one[0].output.dense.weight.std() < 0.03  # initializer_range is 0.02


@pytest.mark.parametrize("init", ["first", "lower", "upper", "spread", "mean", "random"])
def test_successors_never_share_weights_with_anything(init):
    model = make()
    built = build(model, THREE, init=init, seed=0)
    pointers = [p.data_ptr() for module in [model, *built] for p in module.parameters()]
    assert len(pointers) == len(set(pointers))


@pytest.mark.parametrize(("layers", "indices"), [(3, [0, 1, 2]), (6, [0, 2, 4])])
def test_a_checkpoint_gives_one_block_per_successor_or_the_lower_ones(layers, indices, tmp_path):
    other = make(layers)
    with torch.no_grad():
        other.bert.encoder.layer[0].output.dense.weight.add_(1)
    other.bert.save_pretrained(tmp_path / "encoder")  # an encoder alone will do
    built = build(make(), THREE, init=str(tmp_path / "encoder"), seed=0)
    blocks = BertModel.from_pretrained(tmp_path / "encoder").encoder.layer
    assert all(same(part, blocks[index]) for part, index in zip(built, indices, strict=True))


def test_a_checkpoint_of_another_depth_or_width_is_refused(tmp_path):
    make(4).save_pretrained(tmp_path / "deep")
    with pytest.raises(PlanError, match="has 4 blocks; it needs 3, one for each successor, or 6"):
        build(make(), THREE, init=str(tmp_path / "deep"), seed=0)
    make(3, width=8).save_pretrained(tmp_path / "narrow")
    with pytest.raises(PlanError, match=r"is \(8.*there and \(16.*in slot"):
        build(make(), THREE, init=str(tmp_path / "narrow"), seed=0)


def test_a_misspelt_start_is_refused_with_the_nearest():
    with pytest.raises(PlanError, match=r"plan.init is 'lowre'.*Did you mean 'lower'"):
        build(make(), THREE, init="lowre", seed=0)


def test_a_slot_without_a_span_starts_as_a_copy_of_its_module():
    model = make()
    part = build(model, [Slot(f"{PATH}.2.attention")], init="lower", seed=0)[0]
    assert same(part, model.get_submodule(f"{PATH}.2.attention"))
    assert part is not model.get_submodule(f"{PATH}.2.attention")
