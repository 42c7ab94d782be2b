"""A method that was stopped in the middle goes on to the very weights of a run that was not."""

import shutil

import pytest
import torch

from plankwise.kinds import load_kind
from plankwise.training.trainer import StageTrainer

CASES = [("tinybert", {"projection": True}), ("minilm", {})]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_method_that_was_stopped_in_any_of_its_stages_goes_on_to_the_same_weights(
    name, options, make_job, monkeypatch, tmp_path
):
    method = load_kind("methods", name, key="method.name")

    def compress():
        job = make_job(training={"max_steps": 6, "save_every": 1, "evaluate_every": 2}, init="lower")
        return method.compress(job, method.Options(**options)).successor.state_dict()

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
