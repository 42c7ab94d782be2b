"""Constant replacing rates, at one learning rate and at one equivalent learning rate (Xu et al. 2020, Figure 3).

A successor is drawn with the replacing rate p, so on average it learns at p · lr (the paper's equation 7). The first series
keeps lr for every rate; the second keeps p · lr, with lr = base / p. The base is the recipe's `training.learning_rate`. The rate
is constant up to the share `full_at` of the steps that the recipe's schedule has, then 1: the successors' fine-tuning.
"""

from plankwise.errors import ConfigError
from plankwise.studies import Arm, Axis, Published, StudyRequest, Trial
from plankwise.studies._choices import read_replacing, schedule_override
from plankwise.studies._trials import measure_grid

MIN_RECIPES = 1
AXIS = Axis("replacing rate (chance per slot and step)", numeric=True)
VALUES = ("0.1", "0.3", "0.5", "0.7", "0.9")
PUBLISHED = Published(
    source="Xu et al. 2020, section 5.2 and Figure 3",
    setting="BERT-base, 12 layers to 6, MRPC and RTE of GLUE dev, learning rate 2e-5",
    columns=(),
    rows={},
    remark=(
        "the figures stand in a plot only; the text says that the two curves hardly differ, that rates from 0.5 to 0.7 do well on "
        "all GLUE tasks, that a rate as small as 0.1 costs much on all of them, and that the best rate differs between tasks"
    ),
)
FIXED, EQUIVALENT = "learning rate fixed", "equivalent learning rate fixed"
measure = measure_grid


def plan(request: StudyRequest) -> list[Trial]:
    rates = [_read_rate(text) for text in dict.fromkeys(request.values or VALUES)]
    return [Trial(recipe, _arms(recipe, rates)) for recipe in request.recipes]


def equivalent_rate(base: float, rate: float) -> float:
    """The learning rate at which a successor that is drawn with `rate` learns at `base` on average."""
    return base / rate


def _arms(recipe: dict, rates: list[float]) -> list[Arm]:
    config = read_replacing(recipe, "rate")
    own, base = config.method.schedule, config.training.learning_rate
    shares = {"full_at": own.full_at} if hasattr(own, "full_at") else {}
    constant = {rate: schedule_override("constant", {**shares, "rate": rate}) for rate in rates}
    learning_rates = {rate: f"training.learning_rate={equivalent_rate(base, rate)!r}" for rate in rates}
    return [Arm(f"lr-{rate:g}", f"{rate:g}", FIXED, (constant[rate],)) for rate in rates] + [
        Arm(f"elr-{rate:g}", f"{rate:g}", EQUIVALENT, (constant[rate], learning_rates[rate])) for rate in rates
    ]


def _read_rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 1:
        raise ConfigError(
            f"--values has the replacing rate {text!r}; give numbers above 0 and up to 1, like 0.1,0.5,0.9"
        )
    return rate
