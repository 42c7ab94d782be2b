"""Learning rate × start × share of the steps at which the rate reaches 1, as heat maps (the thesis, Figures 5.1–5.3).

`--values` sets any of the axes, as in `learning_rate=1e-5,start=0.1,start=0.9,full_at=0.85`; `init`, the rule that successors start
by, is one more. An axis that is not named stays as the recipe has it. The thesis has 2 learning rates, 4 starting rates (0.1, 0.3,
0.7, 0.9) and 4 shares (0.05, 0.45, 0.85, 1); what is tried if nothing is asked for is the recipe's learning rate and half of it,
and the ends of the others.
"""

from itertools import product

from plankwise.config import RunConfig
from plankwise.core.schedule import SCHEDULES, Linear
from plankwise.errors import ConfigError
from plankwise.kinds import no_such
from plankwise.parts import STARTS
from plankwise.studies import Arm, Axis, Published, StudyRequest, Trial
from plankwise.studies._choices import choose, read_replacing, schedule_override
from plankwise.studies._trials import measure_grid

MIN_RECIPES = 1
AXIS = Axis("share of the steps at which the replacing rate reaches 1", rows="replacing rate at the start")
VALUES = ("start=0.1", "start=0.9", "full_at=0.05", "full_at=0.85", "full_at=1")
KEYS = ("learning_rate", "init", "start", "full_at")
INITS = (*STARTS, "fitted")
PUBLISHED = Published(
    source="thesis, Figures 5.1–5.3",
    setting="BERT-base, 12 layers to 6, successors start from the lower layers, German hate speech and MIMIC-III, test sets",
    columns=(),
    rows={},
    remark=(
        "the figures stand in plots only; the text says that the learning rate (1e-5 or 2e-5) plays a minor role, that rates above "
        "0.3 at the start cost, that a share of 5 % can cost more than that, that 100 %, with no steps left for the successor "
        "alone, is worse than 85 % throughout, and that a start at 0.1 to 0.3 and a share of 85 % do best"
    ),
)
measure = measure_grid


def plan(request: StudyRequest) -> list[Trial]:
    asked = _read_values(request.values or list(VALUES))
    return [Trial(recipe, _arms(recipe, asked, usual=not request.values)) for recipe in request.recipes]


def _read_values(values: list[str]) -> dict[str, list[str]]:
    """What is asked for, by axis."""
    found: dict[str, list[str]] = {}
    for text in dict.fromkeys(values):
        key, equals, value = text.partition("=")
        if not equals or not value:
            raise ConfigError(
                f"--values has {text!r}; write an axis, = and a value, like start=0.1; axes are {', '.join(KEYS)}"
            )
        if key not in KEYS:
            raise ConfigError(f"--values has {text!r}; {no_such(key, list(KEYS), 'axis')}")
        found.setdefault(key, []).append(value)
    return found


def _arms(recipe: dict, asked: dict[str, list[str]], *, usual: bool) -> list[Arm]:
    config = read_replacing(recipe, "grid")
    own = config.training.learning_rate
    rates = [_number(text, "learning_rate") for text in asked.get("learning_rate", ())] or [own]
    if usual:
        rates = [own / 2, own]
    schedule, kind = _own_schedule(config)
    starts = [_number(text, "start") for text in asked.get("start", ())] or [schedule.start]
    shares = [_number(text, "full_at") for text in asked.get("full_at", ())] or [schedule.full_at]
    inits: list[str | None] = [*choose(asked["init"], (), INITS, "init")] if "init" in asked else [None]
    return [
        Arm(
            "-".join([f"lr-{rate:g}", *([init] if init else []), f"{start:g}", f"{share:g}"]),
            f"{share:g}",
            f"learning rate {rate:g}",
            (
                f"training.learning_rate={rate!r}",
                schedule_override(kind, {"start": start, "full_at": share}),
                *([f"plan.init={init}"] if init else []),
            ),
            row=f"{start:g}, {init}" if init else f"{start:g}",
        )
        for rate, init, start, share in product(rates, inits, starts, shares)
    ]


def _own_schedule(config: RunConfig) -> tuple[Linear, str]:
    """The recipe's start and share, and its kind of schedule if that has both; else those of the linear one."""
    own = config.method.schedule
    if not (hasattr(own, "start") and hasattr(own, "full_at")):
        return Linear(), "linear"
    kind = next(name for name, known in SCHEDULES.items() if type(own) is known)
    return Linear(own.start, own.full_at), kind


def _number(text: str, key: str) -> float:
    """What schedules and training allow is for them to say; here it is a number above or at 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1 or (value == 0 and key != "start"):
        allowed = "from 0 to 1" if key == "start" else "above 0 and up to 1"
        raise ConfigError(f"--values has {key}={text}; give a number {allowed}")
    return value
