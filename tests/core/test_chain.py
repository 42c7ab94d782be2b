"""Which lists of a model are chains: blocks in a row, those of each stage where there are stages."""

import itertools

import pytest
import torch
import transformers
from torch import nn

import plankwise
from plankwise.core.chain import find_chains
from plankwise.core.plan import listed_plan
from plankwise.errors import PlanError
from plankwise.models.plans import assemble, build_successors


class BasicBlock(nn.Module):
    """Two convolutions with a way around them; the state's shape changes if the widths differ."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        stride = 1 if before == after else 2
        self.first = nn.Conv2d(before, after, 3, stride, 1)
        self.second = nn.Conv2d(after, after, 3, 1, 1)
        self.around = nn.Conv2d(before, after, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, image):
        return self.around(image) + self.second(torch.relu(self.first(image)))


class Down(nn.Module):
    """One convolution that halves the image."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, after, 3, 2, 1)

    def forward(self, image):
        return torch.relu(self.conv(image))


def stage(before: int, after: int, depth: int) -> nn.Sequential:
    return nn.Sequential(BasicBlock(before, after), *(BasicBlock(after, after) for _ in range(depth - 1)))


class StagedNet(nn.Module):
    """A `Sequential` of `Sequential`s."""

    def __init__(self, *stages: nn.Module, width: int) -> None:
        super().__init__()
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(width, 2)

    def forward(self, image):
        return self.head(self.stages(image).mean((2, 3)))


def staged() -> StagedNet:
    torch.manual_seed(0)
    return StagedNet(stage(3, 4, 2), stage(4, 8, 3), stage(8, 16, 2), width=16)


def swin(depths=(2, 2, 4)):
    torch.manual_seed(0)
    config = transformers.SwinConfig(
        image_size=32, patch_size=2, embed_dim=8, depths=list(depths), num_heads=[2] * len(depths), window_size=4
    )
    return transformers.SwinForImageClassification(config).eval()


def resnet(layer_type="basic", depths=(2, 2, 3)):
    torch.manual_seed(0)
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8 * 2**index for index in range(len(depths))], depths=list(depths),
        layer_type=layer_type,
    )  # fmt: skip
    return transformers.ResNetForImageClassification(config).eval()


STAGED = {
    "sequential": (staged, [("stages.0", 2), ("stages.1", 3), ("stages.2", 2)]),
    "swin": (swin, [(f"swin.encoder.layers.{index}.blocks", depth) for index, depth in enumerate((2, 2, 4))]),
    "swin of two stages": (
        lambda: swin((2, 2)),
        [(f"swin.encoder.layers.{index}.blocks", 2) for index in range(2)],
    ),
    "resnet": (resnet, [(f"resnet.encoder.stages.{index}.layers", depth) for index, depth in enumerate((2, 2, 3))]),
    "resnet of bottlenecks": (
        lambda: resnet("bottleneck"),
        [(f"resnet.encoder.stages.{index}.layers", depth) for index, depth in enumerate((2, 2, 3))],
    ),
    "resnet of two stages": (
        lambda: resnet(depths=(2, 2)),
        [(f"resnet.encoder.stages.{index}.layers", 2) for index in range(2)],
    ),
}


def output_of(model, image):
    output = model(image)
    return output if isinstance(output, torch.Tensor) else output.logits


@pytest.mark.parametrize("name", STAGED)
def test_the_chains_of_a_model_with_stages_are_inside_them(name):
    make, expected = STAGED[name]
    assert [(chain.path, chain.length) for chain in find_chains(make())] == expected


@pytest.mark.parametrize("name", STAGED)
def test_a_hybrid_of_a_model_with_stages_runs_as_predecessor_as_mixture_and_as_successor(name):
    make, expected = STAGED[name]
    model = make().eval()
    image = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        before = output_of(model, image)
        # Not by `hybrid`, which refuses a Swin whose blocks would change places.
        plan = listed_plan(find_chains(model), [[0, 1]])
        ship = assemble(model, plan, build_successors(model, plan, init="random", seed=0))
        assert [slot.path for slot in ship.plan.slots] == [path for path, _ in expected]
        with ship.masked(False):
            assert torch.equal(output_of(ship, image), before)
        outputs = [before]
        for replaced in range(len(expected)):
            with ship.masked([index <= replaced for index in range(len(expected))]):
                outputs.append(output_of(ship, image))
        assert torch.equal(output_of(ship, image), outputs[-1])
    assert all(output.shape == before.shape for output in outputs)
    assert not any(torch.equal(a, b) for a, b in itertools.pairwise(outputs))


def test_a_collapsed_net_of_stages_is_its_successors():
    model = staged().eval()
    image = torch.randn(2, 3, 8, 8)
    ship = plankwise.hybrid(model, spans=[[0, 1]], init="random").eval()
    collapsed = ship.collapse()
    assert [len(one) for one in collapsed.stages] == [1, 2, 1]
    assert torch.equal(collapsed(image), ship(image))


def test_stages_of_one_shape_are_blocks():
    model = StagedNet(*(stage(4, 4, 2) for _ in range(4)), width=4)
    assert [(chain.path, chain.length) for chain in find_chains(model)] == [("stages", 4)]


def test_a_chain_inside_another_can_be_named():
    model = StagedNet(*(stage(4, 4, 2) for _ in range(4)), width=4)
    assert [(chain.path, chain.length) for chain in find_chains(model, ["stages.1"])] == [("stages.1", 2)]


def test_a_span_whose_later_block_changes_the_states_shape_is_refused_with_what_to_name():
    model = StagedNet(Down(3, 4), Down(4, 8), Down(8, 16), Down(16, 32), width=32)
    with pytest.raises(PlanError) as caught:
        plankwise.hybrid(model, successors=2)
    assert str(caught.value) == (
        "span [0, 1] of stages: block 1 (Down) changes the state's shape, and a successor is shaped like the span's first block; "
        "list plan.spans in which blocks 1, 2 and 3 come first or not at all, or name other modules in plan.slots"
    )
    with pytest.raises(PlanError, match=r"block 3 \(Down\) changes"):
        plankwise.hybrid(model, spans=[[2, 3]])


def test_spans_in_which_the_shape_changes_at_the_first_block_are_allowed():
    chain = nn.Sequential(BasicBlock(3, 4), BasicBlock(4, 4), BasicBlock(4, 8), BasicBlock(8, 8))
    model = StagedNet(*chain, width=8)
    image = torch.randn(2, 3, 8, 8)
    before = model(image)
    ship = plankwise.hybrid(model, spans=[[0, 1], [2, 3]]).eval()
    assert ship(image).shape == before.shape
    with pytest.raises(PlanError, match=r"block 2 \(BasicBlock\) changes the state's shape"):
        plankwise.hybrid(StagedNet(*chain, width=8), spans=[[1, 2]])


def test_stages_of_which_one_is_a_single_block_are_refused_with_the_chains_inside():
    with pytest.raises(PlanError, match=r"plan.chains.*swin.encoder.layers.0.blocks.*swin.encoder.layers.2.blocks"):
        plankwise.hybrid(swin((2, 1, 4)))


def test_recurrent_layers_that_change_the_width_are_refused():
    model = nn.Module()
    model.layers = nn.ModuleList([nn.GRU(8, 4), nn.GRU(4, 2)])
    with pytest.raises(PlanError, match=r"block 1 \(GRU\) changes the state's shape"):
        plankwise.hybrid(model, successors=1)
