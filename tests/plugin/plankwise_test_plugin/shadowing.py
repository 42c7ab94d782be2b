"""Shadowing: the truncated model first learns the predecessor's last states, then the task and the predecessor's logits.

In the first stage a projection, trained beside the model and then thrown away, stands between the two models' states:
L = mean of (P s − t)² over tokens and width. The second stage is vanilla distillation.
"""

from typing import Any, Literal

import torch
from pydantic import Field
from torch import nn

from plankwise.core.taps import tapped
from plankwise.families import chains_of
from plankwise.methods.finetune import truncate
from plankwise.options import Options as SectionOptions
from plankwise.training.job import Job, Outcome
from plankwise.training.losses import distilling


class Options(SectionOptions):
    name: Literal["shadowing"] = Field("shadowing", description="this method")
    share: float = Field(0.5, gt=0, lt=1, description="of the steps, spent on the states")
    alpha: float = Field(0.5, ge=0, le=1, description="weight of the predecessor's logits in the second stage")
    T: float = Field(2.0, gt=0, description="temperature")


def defaults(section: dict[str, Any]) -> dict[str, dict]:
    """What this method changes in the defaults of other sections."""
    return {"training": {"learning_rate": 1e-3}}


def reads_logits(options: Options) -> bool:
    return True


def compress(job: Job, options: Options) -> Outcome:
    """Truncates the predecessor by the plan and trains all of it, in two stages."""
    chain = chains_of(job.predecessor)[0].path
    last = f"{chain}.{len(job.predecessor.get_submodule(chain)) - 1}"
    start = job.start()
    on_states, on_answers = start.stages({"states": options.share, "answers": 1 - options.share})
    with tapped(job.predecessor, [last]) as theirs:

        def read(model: nn.Module, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            return {"logits": model(**inputs).logits, "states": _cut(theirs[last], inputs)}

        targets = on_states.targets(job.predecessor, read)
    student = truncate(start)
    own_last = f"{chain}.{len(student.get_submodule(chain)) - 1}"
    width = targets.arrays["states"].shape[-1]
    projection = nn.Linear(width, width)
    nn.init.eye_(projection.weight)
    with tapped(student, [own_last]) as ours:

        def loss(model: nn.Module, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
            model(**inputs)
            found = projection(_cut(ours[own_last], inputs))
            missed = (found - targets.take("states", rows, like=found)).square().mean(-1)
            mask = inputs["attention_mask"]
            return (missed * mask).sum() / mask.sum()

        first = on_states.run(student, loss=loss, modules={"projection": projection})
    second = on_answers.run(student, loss=distilling(targets, options.alpha, options.T), reads_first_token=True)
    return start.outcome(student, first, second, targets=targets.to_json(on_states.passes + on_answers.passes))


def _cut(states: torch.Tensor, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The states of the tokens that were given; some models add padding of their own inside."""
    return states[:, : inputs["input_ids"].shape[1]]
