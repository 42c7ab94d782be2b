"""How few layers: a half, a third and a quarter of them, replaced against truncated (Xu et al. 2020, Table 7).

Truncation is `method.name = finetune` with its own learning rate, for as many steps. The paper's 12 layers give 6, 4 and 3; of
another depth those halves, thirds and quarters that come out even.
"""

from plankwise.core.plan import even_plan
from plankwise.errors import ConfigError, PlanError
from plankwise.families import chains_of
from plankwise.studies import Arm, Axis, Published, StudyRequest, Trial
from plankwise.studies._choices import read_replacing, truncation_overrides
from plankwise.studies._trials import measure_grid, outline

MIN_RECIPES = 1
AXIS = Axis("layers of the successor", numeric=True)
REPLACED, TRUNCATED = "replaced", "truncated"
PUBLISHED = Published(
    source="Xu et al. 2020, Table 7",
    setting="BERT-base, 12 layers, GLUE dev, in percent",
    columns=("CoLA", "MNLI", "MRPC", "QNLI", "QQP", "RTE", "SST-2", "STS-B", "macro"),
    rows={
        "predecessor, 12": (54.3, 83.5, 89.5, 91.2, 89.8, 71.1, 91.5, 88.9, 82.5),
        "truncated, 6": (43.4, 80.1, 86.0, 86.9, 87.8, 62.1, 89.6, 81.9, 77.2),
        "replaced, 6": (51.1, 82.3, 89.0, 89.5, 89.6, 68.2, 91.5, 88.7, 81.2),
        "truncated, 4": (None, 78.4, 86.0, 82.3, 87.1, 58.2, 87.2, 78.4, 73.9),
        "replaced, 4": (None, 80.0, 87.5, 86.1, 88.7, 61.9, 89.1, 82.5, 77.2),
        "truncated, 3": (27.5, 78.1, 81.9, 80.4, 86.5, 57.7, 85.9, 76.8, 71.9),
        "replaced, 3": (35.0, 78.8, 84.3, 82.1, 87.3, 59.5, 87.2, 78.9, 74.1),
    },
    remark="CoLA at 6 layers is taken from Table 2; at 4 layers it could not be read in our copy of the paper",
)
measure = measure_grid


def plan(request: StudyRequest) -> list[Trial]:
    return [Trial(recipe, _arms(recipe, request.values)) for recipe in request.recipes]


def _arms(recipe: dict, values: list[str] | None) -> list[Arm]:
    config = read_replacing(recipe, "depth")
    for key in ("spans", "slots"):
        if key in recipe.get("plan", {}):
            raise ConfigError(
                f"study depth sets plan.successors, but the recipe {recipe['run']['name']} has plan.{key}; take it out"
            )
    chains = chains_of(outline(config), config.plan.chains)
    if values is None:
        length = min(chain.length for chain in chains)
        depths = [length // share for share in (2, 3, 4) if all(chain.length % share == 0 for chain in chains)]
        if not depths:
            raise PlanError(
                f"a predecessor of {length} layers has no even half, third or quarter; list depths: --values 1,…"
            )
    else:
        depths = [_read_depth(text) for text in dict.fromkeys(values)]
    for depth in depths:
        even_plan(chains, depth)
    counts = {depth: f"plan.successors={depth}" for depth in depths}
    return [Arm(f"replaced-{depth}", str(depth), REPLACED, (counts[depth],)) for depth in depths] + [
        Arm(f"truncated-{depth}", str(depth), TRUNCATED, (counts[depth], *truncation_overrides(config)))
        for depth in depths
    ]


def _read_depth(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"--values has the depth {text!r}; give whole numbers from 1 on, like 6,4,3")
    return int(text)
