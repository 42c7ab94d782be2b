"""States kept in files are exactly what a run from the model's input gives."""

import copy

import pytest
import torch
import transformers
from torch import nn

from plankwise.core.chain import find_chains
from plankwise.core.plan import listed_plan
from plankwise.models.plans import assemble, build_successors
from plankwise.solving.bench import Bench
from plankwise.solving.maps import find_maps, reading

SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 6,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "vocab_size": 99,
    "initializer_range": 0.2,
}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
MODERN = {"global_attn_every_n_layers": 3, "local_attention": 4, "cls_token_id": 1, "sep_token_id": 2}
BART = {"d_model": 16, "vocab_size": 99, "encoder_layers": 6, "decoder_layers": 6, "init_std": 0.2, **SPECIAL}
BART |= {f"{side}_{name}": 8 for side in ("encoder", "decoder") for name in ("attention_heads", "ffn_dim")}
KEPT = {
    "bert": ("BertForSequenceClassification", SMALL),
    "modernbert": ("ModernBertForSequenceClassification", {**SMALL, **MODERN, **SPECIAL}),
    "llama": ("LlamaForCausalLM", {**SMALL, **SPECIAL}),
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 16, "n_layer": 6, "n_head": 2, "vocab_size": 99, **SPECIAL}),
    "bart": ("BartModel", {**BART, "forced_eos_token_id": None}),
}
SPANS = [[0, 1], [3, 4], [5]]  # block 2 is left alone


@pytest.fixture(autouse=True)
def no_gradients():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


class Between(nn.Module):
    """A chain behind whose first block something is added, as DeBERTa's convolution is."""

    def __init__(self, blocks: nn.ModuleList) -> None:
        super().__init__()
        self.blocks = blocks
        self.shift = nn.Parameter(torch.randn(8))

    def forward(self, state):
        for index, block in enumerate(self.blocks):
            state = block(state) + (self.shift if index == 0 else 0.0)
        return state


def make(name, toys):
    if name == "between":
        blocks = [copy.deepcopy(block) for block in toys.make_linear_net().blocks]
        for block in blocks:
            nn.init.normal_(block.linear.weight)
        return Between(nn.ModuleList([*blocks, *map(copy.deepcopy, blocks[:2])])).eval(), toys.make_states(3)
    class_name, options = KEPT[name]
    config = transformers.AutoConfig.for_model(name, **options)
    return getattr(transformers, class_name)(config).eval(), toys.make_tokens(3)


def benches(model, sample, tmp_path, spans=SPANS):
    """Two benches of the model, of which the second keeps no states."""
    plan = listed_plan(find_chains(model), spans)
    found = []
    for name in ("keeping", "plain"):
        successors = build_successors(model, plan, init="upper", seed=0)
        (tmp_path / name).mkdir()
        found.append(Bench(assemble(copy.deepcopy(model), plan, successors), sample, tmp_path / name))
    assert found[1].keeps == set(plan.chains)
    found[1].keeps = set()
    return found


def gather(bench, number, batch, inputs, *, leave):
    """What the last block of a slot's span reads and gives at each of its maps, and what the slot is given."""
    last = bench.last(number)
    given = bench.find_given(last, inputs)
    maps = [one for group in find_maps(last, lambda: given.run(last)) for one in group]
    with reading(last, maps, stop=not leave) as found:
        bench.run_last(number, inputs, batch, leave=leave)
    slot_given = bench.find_slot_given(number, inputs, batch)
    tensors = {(path, key): value for path, one in found.items() for key, value in vars(one).items()}
    tensors |= {("given", index): value for index, value in enumerate(slot_given.args)}
    return tensors | {("given", key): value for key, value in slot_given.kwargs.items()}


def flatten(value):
    if isinstance(value, tuple | list):
        return [one for item in value for one in flatten(item)]
    return [value]


@pytest.mark.parametrize("name", [*KEPT, "between"])
def test_states_from_files_are_those_of_a_run_from_the_models_input(name, toys, tmp_path):
    model, batches = make(name, toys)
    keeping, plain = benches(model, batches[0], tmp_path)
    for number in range(len(keeping.slots)):
        for leave in (False, False, True):  # the passes of a slot
            for batch, inputs in enumerate(batches):
                found, expected = (gather(bench, number, batch, inputs, leave=leave) for bench in (keeping, plain))
                assert found.keys() == expected.keys()
                for key, value in expected.items():
                    for ours, theirs in zip(flatten(found[key]), flatten(value), strict=True):
                        if isinstance(theirs, torch.Tensor):
                            assert torch.equal(ours, theirs), (number, leave, key)
        keeping.forget(number)
    assert not list((tmp_path / "plain").iterdir())


def test_a_pass_over_states_from_files_runs_none_of_the_blocks_before(toys, tmp_path):
    model, batches = make("bert", toys)
    keeping, _ = benches(model, batches[0], tmp_path)
    blocks = [keeping.hybrid.get_submodule(f"bert.encoder.layer.{index}.block") for index in (0, 1, 3, 4, 5)]
    blocks += [keeping.place(number).successor for number in range(3)]
    for number in range(2):
        for leave in (False, True):
            gather(keeping, number, 0, batches[0], leave=leave)
    ran = []
    for index, block in enumerate(blocks):
        block.register_forward_hook(lambda *given, index=index: ran.append(index))
    keeping.find_slot_given(1, batches[0], 0)
    keeping.run_last(1, batches[0], 0, leave=True)
    assert ran == [3]  # the last block of the second span


def test_states_are_deleted_once_the_slot_behind_has_been_solved(toys, tmp_path):
    model, batches = make("bert", toys)
    keeping, _ = benches(model, batches[0], tmp_path, [[0], [1], [2], [3]])
    kept = []
    for number in range(4):
        for batch, inputs in enumerate(batches):
            gather(keeping, number, batch, inputs, leave=True)
        keeping.forget(number)
        kept.append({file.name.split("-")[1] for file in keeping.folder.iterdir()})
    assert kept == [{"0", "1"}, {"1", "2"}, {"2", "3"}, {"3"}]


def test_chains_whose_blocks_hand_on_more_than_a_state_are_not_kept(toys, tmp_path):
    config = transformers.T5Config(d_model=16, d_kv=4, d_ff=24, num_layers=2, num_heads=2, vocab_size=99)
    model = transformers.T5EncoderModel(config).eval()
    plan = listed_plan(find_chains(model), [[0, 1]])
    hybrid = assemble(model, plan, build_successors(model, plan, init="lower", seed=0))
    assert Bench(hybrid, toys.make_tokens(1)[0], tmp_path).keeps == set()
