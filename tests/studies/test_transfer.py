import pytest
import torch
from safetensors.torch import load_file

from plankwise.errors import ConfigError
from plankwise.families._loading import load_classifier
from plankwise.studies import transfer
from plankwise.studies._trials import configure

NAMES = ("tiny", "other")


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
    labels = ("negative", "positive")
    body, has_head = load_classifier(str(transfer.body_of(config)), labels)
    given, _ = load_classifier(str(tiny_classifier_folder), labels)
    assert not has_head
    assert torch.equal(body.bert.encoder.layer[3].output.dense.weight, given.bert.encoder.layer[3].output.dense.weight)
    assert not torch.equal(body.classifier.weight, given.classifier.weight)


def test_the_truncated_model_holds_the_blocks_that_the_plan_starts_from(tiny_classifier_folder, request_for):
    request = request_for("transfer", "plan.init=upper", names=NAMES)
    config = configure(request.recipes[0], request.folder, 0)
    given, _ = load_classifier(str(tiny_classifier_folder), ("a", "b"))
    kept = [layer.output.dense.weight.clone() for layer in given.bert.encoder.layer]
    truncated = transfer.truncate(given, config)
    for index, layer in zip((1, 3), truncated.bert.encoder.layer, strict=True):
        assert torch.equal(layer.output.dense.weight, kept[index])


def test_differences_are_taken_to_the_original(request_for, monkeypatch):
    scores = {"original": 0.75, "truncated": 0.5}
    monkeypatch.setattr(transfer, "finetune", lambda run, *_: {"score": scores[run.run.folder.split("/")[-2]]})
    request = request_for("transfer", values=["original", "truncated"], names=NAMES)
    (measured,) = transfer.measure(transfer.plan(request), request)
    assert (measured.baseline_name, measured.baseline) == ("original", 0.75)
    assert [measured.scores(arm) for arm in measured.arms] == [[0.75], [0.5]]


def test_a_successor_that_failed_on_the_source_is_a_failure_on_every_target(request_for, monkeypatch):
    monkeypatch.setattr(transfer, "train_successor", lambda *_: 1 / 0)
    request = request_for("transfer", "predecessor.training.epochs=4", values=["successor"], names=(*NAMES, "third"))
    results = transfer.measure(transfer.plan(request), request)
    assert [point.failure for measured in results for point in measured.points] == [
        "ZeroDivisionError: division by zero"
    ] * 2


def test_targets_of_another_predecessor_are_refused(request_for, tiny_classifier_folder):
    request = request_for("transfer", names=NAMES)
    request.recipes[1]["predecessor"]["path"] = str(tiny_classifier_folder)
    with pytest.raises(ConfigError, match="a transfer starts from one predecessor: make them the same"):
        transfer.plan(request)


def test_an_unknown_model_is_refused(request_for):
    with pytest.raises(ConfigError, match="--values has 'sucessor'; there is no such model"):
        transfer.plan(request_for("transfer", values=["sucessor"], names=NAMES))
