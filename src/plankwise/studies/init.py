"""What successors start from: first, lower, upper (the thesis on Theseus Compression, Table 5.2).

The thesis calls `first` the original procedure and `lower` its own; the code that it lists hands the predecessor's layers over
without copying them, so weights may have been shared there. Here successors are copies. `--values` takes any rule of `plan.init`.
"""

from plankwise.parts import STARTS
from plankwise.studies import Arm, Axis, Published, StudyRequest, Trial
from plankwise.studies._choices import choose, read_replacing
from plankwise.studies._trials import measure_grid

MIN_RECIPES = 1
AXIS = Axis("successors start from")
VALUES = ("first", "lower", "upper")
KNOWN = (*STARTS, "fitted")
PUBLISHED = Published(
    source="thesis, Table 5.2",
    setting="BERT-base, 12 layers to 6, German hate speech (GermEval 19, NOHATE) and MIMIC-III, test sets",
    columns=("F1 first", "F1 lower", "AUC first", "AUC lower", "acc. first", "acc. lower"),
    rows={
        "GermEval 19": (0.6660, 0.6687, 0.6675, 0.6673, 0.7066, 0.7149),
        "LM + GermEval 19": (0.6647, 0.6667, 0.6672, 0.6949, 0.7040, 0.7139),
        "NOHATE LM + GermEval 19": (0.7019, 0.7210, 0.7008, 0.7110, 0.7419, 0.7703),
        "NOHATE": (0.7012, 0.6903, 0.6974, 0.6755, 0.7835, 0.7922),
        "LM + NOHATE": (0.7096, 0.7171, 0.7059, 0.7097, 0.7893, 0.7985),
        "MIMIC-III": (0.6154, 0.6364, 0.6212, 0.6755, 0.8524, 0.8788),
        "LM + MIMIC-III": (0.6395, 0.6491, 0.6693, 0.7097, 0.8425, 0.8618),
    },
    places=4,
    remark=(
        "F1 is macro F1, AUC that of the ROC curve; LM: compressed while the language model was fine-tuned; "
        "upper has no figures: the text says that it was worse throughout"
    ),
)
measure = measure_grid


def plan(request: StudyRequest) -> list[Trial]:
    rules = choose(request.values, VALUES, KNOWN, "init")
    for recipe in request.recipes:
        read_replacing(recipe, "init")
    arms = [Arm(rule, rule, overrides=(f"plan.init={rule}",)) for rule in rules]
    return [Trial(recipe, arms) for recipe in request.recipes]
