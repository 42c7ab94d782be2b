"""Replacing schedules: constant, curriculum and anti-curriculum (Xu et al. 2020, Table 6).

The recipe's own schedule gives `start` and `full_at`. Curriculum is the linear schedule; anti-curriculum is 1 minus it, as in
the paper, so from `full_at` on its rate is 0 and nothing is trained any more. Constant has the rate 0.5, the lowest of the three
that the paper searched (0.5, 0.7, 0.9), and then 1 from `full_at` on; a recipe whose own schedule is constant keeps its rate.
"""

from plankwise.core.schedule import SCHEDULES
from plankwise.studies import Arm, Axis, Published, StudyRequest, Trial
from plankwise.studies._choices import choose, read_replacing, schedule_override
from plankwise.studies._trials import measure_grid

MIN_RECIPES = 1
AXIS = Axis("schedule")
VALUES = ("constant", "linear", "anti")
PUBLISHED = Published(
    source="Xu et al. 2020, Table 6",
    setting="BERT-base, 12 layers to 6, GLUE dev, in percent",
    columns=("CoLA", "MNLI", "MRPC", "QNLI", "QQP", "RTE", "SST-2", "STS-B"),
    rows={
        "constant": (44.4, 81.9, 87.1, 88.5, 88.6, 66.4, 90.6, 88.4),
        "linear (curriculum)": (51.1, 82.3, 89.0, 89.5, 89.6, 68.2, 91.5, 88.7),
        "anti (anti-curriculum)": (42.8, 79.8, 85.6, 87.8, 87.6, 62.4, 88.8, 85.4),
    },
    remark="curriculum beats the constant rate on every task, and anti-curriculum loses to it on every task",
)
measure = measure_grid


def plan(request: StudyRequest) -> list[Trial]:
    return [Trial(recipe, _arms(recipe, request)) for recipe in request.recipes]


def _arms(recipe: dict, request: StudyRequest) -> list[Arm]:
    own = read_replacing(recipe, "schedule").method.schedule
    shares = {key: getattr(own, key) for key in ("start", "full_at", "rate") if hasattr(own, key)}
    return [
        Arm(kind, kind, overrides=(schedule_override(kind, shares),))
        for kind in choose(request.values, VALUES, SCHEDULES, "schedule")
    ]
