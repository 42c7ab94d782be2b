"""A method that was stopped in the middle goes on to the very weights of a run that was not."""

import shutil
from dataclasses import replace

import pytest
import torch

from plankwise.kinds import load_kind
from plankwise.training.trainer import StageTrainer

CASES = [
    ("tinybert", {"projection": True}),
    ("minilm", {}),
    ("mobilebert", {"below": 0.5}),
    ("mobilebert", {"variant": "joint"}),
    ("mobilebert", {"variant": "auxiliary"}),
    ("distilbert", {}),
    ("pd", {}),
    ("heads", {"rounds": 2}),
    ("magnitude", {}),
    ("movement", {}),
    ("cofi", {"target": 1.5, "warmup": 0.5}),
    ("rpp", {"keep": 0.5, "strength": 1e-3, "begin_at": 0.0, "full_at": 0.9}),
    ("qbert", {"bits": 3, "examples": 8}),
    ("kd", {"attention": 1.0}),
    ("replacing", {"attention": 1.0, "schedule": {"kind": "constant", "rate": 0.5, "full_at": 0.7}}),
    ("replacing", {"mix": "blend", "local": 1.0}),
]


def score(model):
    """Of the weights alone: an evaluation after a resume says what it would have said before."""
    return {"score": sum(float(value.double().abs().sum()) for value in model.state_dict().values())}


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_method_that_was_stopped_in_any_of_its_stages_goes_on_to_the_same_weights(
    name, options, make_job, monkeypatch, tmp_path
):
    method = load_kind("methods", name, key="method.name")

    def compress():
        job = make_job(training={"max_steps": 6, "save_every": 1, "evaluate_every": 2}, init="lower")
        scored = replace(job, stage=lambda name: replace(job.stage(name), score=score))
        return method.compress(scored, method.Options(**options)).successor.state_dict()

    whole = compress()
    shutil.rmtree(tmp_path / "checkpoints")
    step = StageTrainer.training_step
    for stopped in (3, 3):  # of what is left
        left = iter(range(stopped - 1))

        def stopping(*args, left=left, **kwargs):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return step(*args, **kwargs)

        monkeypatch.setattr(StageTrainer, "training_step", stopping)
        with pytest.raises(KeyboardInterrupt):
            compress()
    monkeypatch.setattr(StageTrainer, "training_step", step)
    resumed = compress()
    assert not [key for key, value in whole.items() if not torch.equal(value, resumed[key])]
