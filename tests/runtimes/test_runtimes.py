"""The contract of every runtime, found by its file, plug-ins included."""

import functools
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
)

from plankwise.config import validate_config
from plankwise.errors import ConfigError
from plankwise.export import export_model
from plankwise.kinds import list_kinds, load_kind
from plankwise.runtimes import Predictor, open_predictor

EVERY_RUNTIME = pytest.mark.parametrize("name", list_kinds("runtimes"))


def make_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    ids = torch.randint(5, 20, (3, 8))
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    return {"input_ids": ids, "attention_mask": mask}


@pytest.fixture(scope="module")
def saved(tmp_path_factory, tiny_classifier_folder, tiny):
    """The folders of a classifier and of a masked language model."""
    folder = tmp_path_factory.mktemp("runtimes")
    tiny.save_tokenizer(folder)
    torch.manual_seed(0)
    sizes = {"vocab_size": 25, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    BertForMaskedLM(BertConfig(**sizes, intermediate_size=24)).save_pretrained(folder)
    return SimpleNamespace(
        classifier=(str(tiny_classifier_folder), AutoModelForSequenceClassification),
        language=(str(folder), AutoModelForMaskedLM),
    )


@functools.cache
def folder_for(name: str, path: str, auto) -> str:
    """The model in a folder that the runtime opens: the checkpoint, or an export beside it."""
    format = getattr(load_kind("runtimes", name, key="evaluation.runtime"), "FORMAT", None)
    if format is None:
        return path
    model, tokenizer = auto.from_pretrained(path), AutoTokenizer.from_pretrained(path)
    return str(export_model(model, tokenizer, f"{path}-{format}", format=format))


def open_both(name: str, given) -> tuple[Predictor, torch.nn.Module]:
    """The runtime's predictor, and the same model in torch."""
    path, auto = given
    return open_predictor(name, folder_for(name, path, auto), auto.from_pretrained), auto.from_pretrained(path).eval()


def assert_like(name: str, found: torch.Tensor, expected: torch.Tensor, least: float = 0.0) -> None:
    tolerance = max(least, load_kind("runtimes", name, key="evaluation.runtime").TOLERANCE)
    assert found.shape == expected.shape
    assert found.device.type == expected.device.type
    assert (found - expected).abs().max() <= tolerance * expected.abs().max()


@EVERY_RUNTIME
def test_a_runtime_says_how_far_it_may_be_from_torch(name):
    tolerance = load_kind("runtimes", name, key="evaluation.runtime").TOLERANCE
    assert 0 <= tolerance < 0.1


@EVERY_RUNTIME
@pytest.mark.parametrize("model", ["classifier", "language"])
@torch.no_grad()
def test_outputs_are_torchs_within_the_runtimes_tolerance_and_on_its_device(name, model, saved):
    predictor, reference = open_both(name, getattr(saved, model))
    found = predictor(make_inputs())
    assert found["logits"].device.type == predictor.device.type
    assert not found["logits"].requires_grad
    assert_like(name, found["logits"].cpu().float(), reference(**make_inputs()).logits)


@EVERY_RUNTIME
@torch.no_grad()
def test_two_predictions_of_one_batch_are_equal_and_the_batch_is_left_as_it_was(name, saved):
    predictor, _ = open_both(name, saved.classifier)
    inputs = make_inputs()
    first, second = predictor(inputs)["logits"], predictor(inputs)["logits"]
    assert torch.equal(first, second)
    assert all(torch.equal(value, inputs[key]) for key, value in make_inputs().items())


@EVERY_RUNTIME
@torch.no_grad()
def test_there_is_one_row_of_logits_for_each_chosen_token(name, saved):
    predictor, reference = open_both(name, saved.language)
    chosen = torch.zeros(3, 8, dtype=torch.bool)
    chosen[0, 2] = chosen[1, 4] = chosen[2, 0] = chosen[2, 7] = True
    found = predictor(make_inputs(), chosen)["logits"].cpu().float()
    expected = reference(**make_inputs()).logits[chosen]
    assert found.shape == (4, 25)
    assert_like(name, found, expected, least=1e-5)  # a head on some rows adds up in another order than on all of them
    assert_like(name, predictor(make_inputs())["logits"].cpu().float(), reference(**make_inputs()).logits)


@EVERY_RUNTIME
def test_a_model_has_a_size_on_disk_and_can_be_waited_for(name, saved):
    path = folder_for(name, *saved.classifier)
    predictor, _ = open_both(name, saved.classifier)
    assert 0 < predictor.size_mb <= 1.01 * sum(file.stat().st_size for file in Path(path).glob("*")) / 1e6
    predictor.wait()


EXPORTED = [name for name in list_kinds("runtimes") if hasattr(load_kind("runtimes", name, key="name"), "FORMAT")]


@pytest.mark.parametrize("name", EXPORTED)
def test_a_runtime_of_exports_says_how_to_export_a_checkpoint(name, saved):
    path, auto = saved.classifier
    with pytest.raises(ConfigError, match=f"is not one; export it first: plankwise export .* --to {name}"):
        open_predictor(name, path, auto.from_pretrained)


@pytest.mark.parametrize("name", EXPORTED)
def test_an_export_is_opened_by_its_own_runtime_where_none_is_asked_for_and_refused_by_another(name, saved):
    folder = folder_for(name, *saved.classifier)
    assert type(open_predictor("torch", folder, None)) is type(open_predictor(name, folder, None))
    other = next(one for one in EXPORTED if one != name)
    with pytest.raises(ConfigError, match=f"was exported to {name}, which {name} opens; leave evaluation.runtime out"):
        open_predictor(other, folder, None)


@pytest.mark.parametrize("name", EXPORTED)
def test_a_runtime_of_exports_has_as_many_threads_as_torch_has_when_it_is_called(name, saved):
    predictor, _ = open_both(name, saved.classifier)
    before, expected = torch.get_num_threads(), predictor(make_inputs())["logits"]
    try:
        torch.set_num_threads(before + 1)
        torch.testing.assert_close(predictor(make_inputs())["logits"], expected)
        assert predictor.threads == before + 1
    finally:
        torch.set_num_threads(before)


def test_a_runtime_that_nobody_knows_is_refused_with_the_config():
    with pytest.raises(
        ConfigError, match=r"evaluation\.runtime is 'torhc'; there is no such runtime.*Did you mean 'torch'"
    ):
        validate_config({"evaluation": {"runtime": "torhc"}})
