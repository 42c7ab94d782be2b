"""The examples of other nets: each successor is smaller, has learnt its task, and is what the hybrid is at rate 1."""

import importlib.util
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
# Steps of each of the two trainings, the parts in its slots, and what guessing scores.
NETS = {
    "resnet": (100, ["layers", "own", "own"], 0.25),
    "gru": (60, ["layers", "recurrent", "linear", "identity"], 0.25),
    "graph": (60, ["layers", "own"], 0.62),
    "vit": (100, ["layers", "lite", "linear", "identity"], 0.25),
    "decoder": (40, ["layers", "narrow", "linear", "identity"], None),
}


def load_example(name):
    spec = importlib.util.spec_from_file_location(f"{name}_example", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_inputs(example, name):
    if name == "decoder":
        return {"input_ids": example.draw_batch(example.read_text(None, "valid"), 0)}
    data = {"resnet": "make_images", "vit": "make_images", "gru": "make_sequences", "graph": "make_graphs"}[name]
    *given, _ = getattr(example, data)(20, seed=3)
    keys = {"resnet": ["input"], "vit": ["pixel_values"], "gru": ["ids"], "graph": ["marks", "edges"]}[name]
    return dict(zip(keys, given, strict=True))


def size(model):
    return sum(one.numel() for one in model.parameters())


@torch.no_grad()
def run(model, inputs):
    output = model(**inputs)
    return output if isinstance(output, torch.Tensor) else output.logits


@pytest.mark.parametrize("name", NETS)
def test_a_net_of_another_kind_is_compressed_by_a_mixed_plan(name, tmp_path, capsys):
    steps, parts, guessing = NETS[name]
    example = load_example(name)
    folder = {"vit": (tmp_path,), "decoder": (None, tmp_path)}.get(name, ())
    ship, successor, before, after = example.main(*folder, steps=steps)
    assert [slot.part for slot in ship.plan.slots] == parts
    inputs = make_inputs(example, name)
    ship.eval()
    if folder:  # loaded: weights that are mapped from a file may differ in the last bit of a product
        torch.testing.assert_close(run(successor, inputs), run(ship, inputs), atol=1e-5, rtol=1e-4)
        assert torch.equal(run(ship.collapse(), inputs), run(ship, inputs))
    else:
        assert torch.equal(run(successor, inputs), run(ship, inputs))
    with ship.masked(False):
        assert not torch.equal(run(successor, inputs), run(ship, inputs))
    shown = capsys.readouterr().out
    assert f"{size(successor):,} parameters" in shown
    whole = int(shown.split(" parameters")[0].split()[-1].replace(",", ""))
    assert size(successor) < whole / 2
    if guessing is None:
        frequent = example.read_text(None, "valid").bincount().float()
        by_frequency = torch.distributions.Categorical(frequent).entropy().item()
        assert max(before, after) < by_frequency * 0.8  # it knows more of a byte than how frequent it is
    else:
        assert min(before, after) > guessing + 0.2


def test_the_decoder_reads_wikitexts_files(tmp_path):
    example = load_example("decoder")
    (tmp_path / "wiki.valid.raw").write_text(" = Ship = \n", "utf-8")
    assert bytes(example.read_text(tmp_path, "valid").tolist()) == b" = Ship = \n"
    assert not torch.equal(example.read_text(None, "train"), example.read_text(None, "valid"))
