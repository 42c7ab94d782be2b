import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

from plankwise.errors import ConfigError
from plankwise.models.loading import Loader
from plankwise.studies import transfer
from plankwise.studies._trials import configure

NAMES = ("tiny", "other")


def load(folder):
    return Loader().model(str(folder), AutoModelForSequenceClassification, new_head=True)


def test_a_body_has_no_head_even_if_the_model_had_one(tiny_classifier_folder, request_for):
    request = request_for("transfer", f"predecessor.path={tiny_classifier_folder}", names=NAMES)
    config = configure(request.recipes[0], request.folder, 0)
    for name, layers in {transfer.ORIGINAL: 4, transfer.TRUNCATED: 2}.items():
        transfer._make_body(name, config, None, request.console)
        kept = load_file(transfer.body_of(config) / "model.safetensors")
        assert not any("classifier" in key for key in kept)
        assert len({key.split("layer.")[1].split(".")[0] for key in kept if "layer." in key}) == layers


def test_a_target_starts_from_the_body_with_a_new_head(tiny_classifier_folder, request_for):
    request = request_for("transfer", f"predecessor.path={tiny_classifier_folder}", names=NAMES)
    config = configure(request.recipes[0], request.folder, 0)
    transfer._make_body(transfer.ORIGINAL, config, None, request.console)
    loaded, given = load(transfer.body_of(config)), load(tiny_classifier_folder).model
    body = loaded.model
    assert {"classifier.weight", "classifier.bias"} <= set(loaded.new)
    assert torch.equal(body.bert.encoder.layer[3].output.dense.weight, given.bert.encoder.layer[3].output.dense.weight)
    assert not torch.equal(body.classifier.weight, given.classifier.weight)


def test_the_truncated_model_holds_the_blocks_that_the_plan_starts_from(tiny_classifier_folder, request_for):
    request = request_for("transfer", "plan.init=upper", names=NAMES)
    config = configure(request.recipes[0], request.folder, 0)
    given = load(tiny_classifier_folder).model
    kept = [layer.output.dense.weight.clone() for layer in given.bert.encoder.layer]
    truncated = transfer.truncate(given, config)
    for index, layer in zip((1, 3), truncated.bert.encoder.layer, strict=True):
        assert torch.equal(layer.output.dense.weight, kept[index])


def test_differences_are_taken_to_the_original(request_for):
    request = request_for("transfer", values=["truncated", "original"], names=NAMES)
    (measured,) = transfer.measure(transfer.plan(request), request)
    truncated, original = measured.arms
    assert (measured.baseline_name, measured.baseline) == ("original", measured.median(original))
    assert measured.scores(truncated)


def test_a_successor_that_failed_on_the_source_is_a_failure_on_every_target(request_for):
    wild = ("training.learning_rate=1e38", "training.max_steps=3", "method.name=finetune")
    request = request_for("transfer", *wild, values=["successor"], names=(*NAMES, "third"))
    results = transfer.measure(transfer.plan(request), request)
    failures = [point.failure for measured in results for point in measured.points]
    assert len(failures) == 2
    assert failures[0] == failures[1]
    assert failures[0].startswith("the model's outputs are not finite numbers")


def test_targets_of_another_predecessor_are_refused(request_for, tiny_classifier_folder):
    request = request_for("transfer", names=NAMES)
    request.recipes[1]["predecessor"]["path"] = str(tiny_classifier_folder)
    with pytest.raises(ConfigError, match="a transfer starts from one predecessor: make them the same"):
        transfer.plan(request)


def test_an_unknown_model_is_refused(request_for):
    with pytest.raises(ConfigError, match="--values has 'sucessor'; there is no such model"):
        transfer.plan(request_for("transfer", values=["sucessor"], names=NAMES))
