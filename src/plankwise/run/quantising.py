"""Training for int8: the last share of a run's steps is trained as the exported model will compute, whatever the method.

The method has the steps before, and does not know of it. What is trained here is all of its successor, on the task's own loss.
"""

from dataclasses import replace

from plankwise.errors import ConfigError
from plankwise.export import choose
from plankwise.run.inputs import Run
from plankwise.training.fake_int8 import fake_int8
from plankwise.training.job import Outcome
from plankwise.training.stage import Stage, trained_alone

STAGE = "quantising"
SLOWER = 5  # times the method's learning rate, if nothing is said


def divide(run: Run) -> tuple[Run, Stage]:
    """The run with the steps that its method has, and the stage that has the others.

    Raises:
        ConfigError: there is one step, which cannot be shared.
    """
    training = run.config.training
    options = training.quantising
    augmentation = getattr(run.config.method, "augmentation", None)
    copies = augmentation.copies if augmentation else 0  # an epoch of the method has them, too
    whole = run.stage(STAGE, training.model_copy(update={"epochs": training.epochs * (1 + copies)}))
    if whole.num_steps < 2:
        raise ConfigError(
            f"training.quantising.share is {options.share:g}, which shares the training steps with the method, and there is 1 "
            "step; give more (training.epochs or training.max_steps), or a share of 0"
        )
    steps = max(1, min(whole.num_steps - 1, round(options.share * whole.num_steps)))
    rate = options.learning_rate or training.learning_rate / SLOWER
    method = training.model_copy(update={"max_steps": whole.num_steps - steps})
    return (
        replace(run, config=run.config.model_copy(update={"training": method})),
        whole.with_steps(steps, learning_rate=rate),
    )


def quantise(outcome: Outcome, stage: Stage, *, safe_range: bool | None) -> Outcome:
    """Trains all of a method's successor under the rounding of int8; its weights stay float32.

    `safe_range` as in `export_model`.
    """
    model = outcome.successor
    how = choose("onnx", "int8", None, safe_range=safe_range)
    with (
        trained_alone(model, {name for name, _ in model.named_parameters()}),
        fake_int8(model, safe_range=how.safe_range),
    ):
        # Not for the first token alone: the range of what a layer is given is that of all tokens.
        result = stage.run(model)
    notes = {"learning_rate": stage.options.learning_rate, "safe_range": how.safe_range}
    return replace(outcome, stages={**outcome.stages, STAGE: result}, notes={**outcome.notes, STAGE: notes})
