"""Which linear maps a module has, in which order, and what each reads and is to give: on toys and on blocks of families."""

import pytest
import torch
from torch import nn
from transformers import BertConfig, GPT2Config, T5Config
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.gpt2.modeling_gpt2 import GPT2Block
from transformers.models.t5.modeling_t5 import T5Block
from transformers.pytorch_utils import Conv1D

from plankwise.solving.maps import Map, Stop, find_maps, reading

WIDTH = 8
STATE = torch.randn(2, 5, WIDTH, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def no_gradients():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def maps_of(module):
    module.eval()
    return find_maps(module, lambda: module(STATE))


class PostNorm(nn.Module):
    """norm(h + W g(h)), of h = norm(x + V x), where V reads what U reads."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.beside, self.up, self.down = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.middle, self.final = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, state):
        state = self.middle(state + self.first(state) * torch.sigmoid(self.beside(state)))
        return self.final(state + self.down(torch.relu(self.up(state))))


class PreNorm(nn.Module):
    """h + W g(norm(h)), of h = x + V norm(x)."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.up, self.down = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.before, self.between = nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH)

    def forward(self, state):
        state = state + self.one(self.before(state))
        return state + self.down(torch.relu(self.up(self.between(state))))


def test_a_block_with_norms_behind_its_sums():
    found = maps_of(PostNorm())
    # `first` is multiplied before it is added: it is to give what another module's map gives.
    assert found == [(Map("first"), Map("beside")), (Map("up"),), (Map("down", summed=True, norm="final"),)]


def test_a_block_with_norms_before_its_maps():
    found = maps_of(PreNorm())
    assert found == [(Map("one", summed=True, norm="between"),), (Map("up"),), (Map("down", summed=True),)]


def test_a_linear_map_alone_is_a_module_that_ends_in_itself():
    assert maps_of(nn.Linear(WIDTH, 3)) == [(Map("", summed=True),)]


class Twice(PreNorm):
    """`up` runs twice."""

    def forward(self, state):
        state = state + self.one(self.before(state))
        return state + self.down(torch.relu(self.up(self.up(self.between(state)))))


class EndsTwice(PreNorm):
    """What it ends in runs twice."""

    def forward(self, state):
        return state + self.down(torch.relu(self.down(self.before(state))))


def test_a_map_that_runs_twice_is_left_out():
    assert maps_of(Twice()) == [(Map("one", summed=True, norm="between"),), (Map("down", summed=True),)]
    assert maps_of(EndsTwice()) == []


class Ending(nn.Module):
    def __init__(self, end) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.end = end

    def forward(self, state):
        return self.end(self, state, self.linear(state))


@pytest.mark.parametrize(
    "end",
    [
        lambda own, state, given: torch.tanh(state + given),
        lambda own, state, given: state + 2 * given,
        lambda own, state, given: state * given,
        lambda own, state, given: state + own.norm(given),
        lambda own, state, given: 2 * own.norm(state + given),
        lambda own, state, given: own.norm(own.norm(state + given)),
        lambda own, state, given: state,
        lambda own, state, given: (state + given).sum(-1),
    ],
    ids=["tanh", "scaled", "product", "norm of the map", "behind the norm", "two norms", "unused", "another shape"],
)
def test_a_module_that_does_not_end_in_a_linear_map_has_none(end):
    assert maps_of(Ending(end)) == []


def test_a_module_without_linear_maps_has_none():
    assert maps_of(nn.LayerNorm(WIDTH)) == []


SIZES = {"hidden_size": WIDTH, "num_attention_heads": 2, "intermediate_size": 12}


def test_all_six_maps_of_a_bert_block_are_found_in_order():
    config = BertConfig(**SIZES)
    config._attn_implementation = "eager"
    assert maps_of(BertLayer(config)) == [
        (Map("attention.self.query"), Map("attention.self.key"), Map("attention.self.value")),
        (Map("attention.output.dense", summed=True, norm="attention.output.LayerNorm"),),
        (Map("intermediate.dense"),),
        (Map("output.dense", summed=True, norm="output.LayerNorm"),),
    ]


def test_all_four_maps_of_a_gpt2_block_are_found_in_order():
    config = GPT2Config(n_embd=WIDTH, n_head=2)
    config._attn_implementation = "eager"
    assert maps_of(GPT2Block(config)) == [
        (Map("attn.c_attn"),),
        (Map("attn.c_proj", summed=True, norm="ln_2"),),
        (Map("mlp.c_fc"),),
        (Map("mlp.c_proj", summed=True),),
    ]


def test_of_a_decoder_what_reads_the_encoder_is_a_group_of_its_own():
    config = T5Config(d_model=WIDTH, d_kv=4, d_ff=12, num_heads=2, is_decoder=True)
    config._attn_implementation = "eager"
    block = T5Block(config, has_relative_attention_bias=True).eval()
    memory, places = torch.randn(2, 3, WIDTH), torch.arange(5)
    found = find_maps(block, lambda: block(STATE, encoder_hidden_states=memory, cache_position=places))
    assert [[one.path.split(".")[-1] for one in group] for group in found] == [
        ["q", "k", "v"],
        ["o"],
        ["q"],
        ["k", "v"],
        ["o"],
        ["wi"],
        ["wo"],
    ]


@pytest.mark.parametrize("linear", [nn.Linear(3, 5), nn.Linear(3, 5, bias=False), Conv1D(5, 3)])
def test_a_matrix_is_inputs_by_outputs_with_the_bias_last_and_is_written_back_as_the_module_stores_it(linear):
    one = Map("")
    matrix, rows = one.matrix(linear), torch.randn(7, 3)
    assert one.has_bias(linear) == (linear.bias is not None)
    assert matrix.shape == (3 + one.has_bias(linear), 5)

    def times(given):
        extended = torch.cat([rows, torch.ones(7, 1)], 1) if one.has_bias(linear) else rows
        return extended @ given.float()

    torch.testing.assert_close(linear(rows), times(matrix))
    new = torch.randn(matrix.shape, dtype=torch.float64)
    one.set_matrix(linear, new)
    torch.testing.assert_close(linear(rows), times(new))


def test_a_reading_has_what_a_map_takes_what_it_gives_and_the_sum():
    module = PreNorm().eval()
    maps = [Map("one", summed=True, norm="between"), Map("up"), Map("down", summed=True)]
    with reading(module, maps) as found:
        output = module(STATE)
    middle = STATE + found["one"].output
    assert torch.equal(found["one"].features, module.before(STATE))
    assert torch.equal(found["one"].total, middle)
    assert torch.equal(found["up"].features, module.between(middle))
    assert found["up"].total is None
    assert torch.equal(found["down"].features, torch.relu(found["up"].output))
    assert torch.equal(found["down"].total, output)


def test_a_run_is_left_once_all_maps_have_been_read_and_in_no_later_run():
    module = PreNorm().eval()
    ran = []
    module.down.register_forward_hook(lambda *given: ran.append("down"))
    with reading(module, [Map("up"), Map("one", summed=True, norm="between")], stop=True) as found:
        for _ in range(2):
            with pytest.raises(Stop):
                module(STATE)
    assert not ran
    assert found["up"].output is not None
    assert found["one"].total is not None
    module(STATE)
    assert ran == ["down"]
