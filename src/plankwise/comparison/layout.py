"""What a grid is to have, laid out and checked before anything is trained: the config of each cell, and the rows that fit."""

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from plankwise.comparison.given import Given
from plankwise.comparison.speed import LATENCY, PREDECESSOR
from plankwise.config import RunConfig, validate_config
from plankwise.errors import ConfigError, DataError, PlanError, PlankwiseError, RunError
from plankwise.run import folders
from plankwise.run.augmentation import check_augmentation
from plankwise.run.inputs import Inputs, check_plan
from plankwise.toml import apply_override

SHARED = ("task", "predecessor", "run", "evaluation")  # sections that no variant may change
BUDGET = ("epochs", "max_steps", "batch_size", "evaluate_every", "early_stopping")
PREDECESSOR_RUN = "predecessor-run"
TAKEN = (PREDECESSOR, PREDECESSOR_RUN, LATENCY)
LONGEST_LABEL = 64


@dataclass(frozen=True)
class Variant:
    """One row of the table: the recipe with some keys set otherwise."""

    label: str
    overrides: tuple[str, ...] = ()  # key=value
    optional: bool = False  # left out where it does not fit the task or the model, instead of refused


@dataclass(frozen=True)
class Layout:
    """One recipe, checked, before anything is trained."""

    recipe: str
    folder: Path
    base: RunConfig  # that the predecessor is made by
    configs: dict[tuple[str, int], RunConfig]  # by label and seed, in the order in which they run
    optional: frozenset[str] = frozenset()  # labels

    @property
    def rows(self) -> dict[str, RunConfig]:
        """By label, with the first seed."""
        first = next(iter(self.configs))[1]
        return {label: config for (label, seed), config in self.configs.items() if seed == first}


def check_rows(variants: Sequence[Variant], seeds: Sequence[int], given: Sequence[Given]) -> None:
    if not variants:
        raise ConfigError("there is no row to compare; give at least one method or variant")
    labels = [variant.label for variant in variants] + [row.label for row in given]
    for label in labels:
        if not re.fullmatch(r"[\w.+-]+", label) or label.startswith(".") or len(label) > LONGEST_LABEL:
            raise ConfigError(
                f"row label {label!r} cannot name a folder; use up to {LONGEST_LABEL} letters, digits and . _ + -, "
                "with no dot in front"
            )
        if label in TAKEN:
            raise ConfigError(f"row label {label!r} is taken by the comparison's own files; choose another")
        if labels.count(label) > 1:
            raise ConfigError(f"row label {label!r} is given twice; every row needs a label of its own")
    for variant in variants:
        for override in variant.overrides:
            key = override.partition("=")[0]
            if key.partition(".")[0] in SHARED or key == "training.max_length":
                raise _not_shared(variant.label, key)
    if not seeds:
        raise ConfigError("there is no seed; give at least one")
    if len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise ConfigError(f"seeds are {list(seeds)}; give whole numbers from 0 on, each once")


def _not_shared(label: str, key: str) -> ConfigError:
    return ConfigError(
        f"row {label!r} sets {key}, but all rows share {', '.join(SHARED)} and training.max_length; "
        "set it for the whole comparison"
    )


def lay_out(recipe: dict, variants: Sequence[Variant], seeds: Sequence[int], folder: Path) -> Layout:
    plain = validate_config(recipe)
    name, data_seed = plain.run.name, plain.run.seed_of_data
    if name.startswith("."):
        raise ConfigError(f"run.name is {name!r}, which cannot name a folder here; choose one with no dot in front")

    def config_for(variant: Variant, place: str, seed: int) -> RunConfig:
        data = _merge(recipe, variant, plain.method.name)
        run = {"folder": str(folder / name / place), "seed": seed, "data_seed": data_seed}
        try:
            config = validate_config({**data, "run": {**data.get("run", {}), **run}})
        except ConfigError as error:
            raise ConfigError(f"row {variant.label!r} of {name}: {error}") from None
        if config.training.max_length != plain.training.max_length:
            raise _not_shared(variant.label, "training.max_length")
        return config

    base = config_for(Variant(PREDECESSOR), PREDECESSOR_RUN, plain.run.seed)
    configs = {
        (variant.label, seed): config_for(variant, f"{variant.label}/seed-{seed}", seed)
        for seed in seeds
        for variant in variants
    }
    for config in (base, *configs.values()):
        try:
            folders.is_finished(Path(config.run.folder), config)
        except RunError as error:
            raise RunError(f"{error} (a comparison's folder is set by --folder)") from None
    return Layout(name, folder / name, base, configs, frozenset(one.label for one in variants if one.optional))


def _merge(recipe: dict, variant: Variant, method: str) -> dict:
    """The recipe's data with the variant's keys; another method than the recipe's leaves that one's own keys behind."""
    own: dict = {}
    for override in variant.overrides:
        apply_override(own, override)
    data = copy.deepcopy(recipe)
    section = own.get("method")
    if isinstance(section, dict) and section.get("name", method) != method:
        data["method"] = {}
    for override in variant.overrides:
        apply_override(data, override)
    return data


def check_recipes(layouts: list[Layout], given: Sequence[Given]) -> None:
    names = [layout.recipe for layout in layouts]
    if not names:
        raise ConfigError("no recipe is given; give at least one TOML file, for example one of the folder recipes/")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two recipes have the run.name {name!r}, which names their folder; give each its own")
    if given and len(names) > 1:
        raise ConfigError(
            f"row {given[0].label!r} is a trained model, which is for one task, but there are {len(names)} recipes; give one"
        )


def fitting(layout: Layout, inputs: Inputs, console: Console) -> Layout:
    """The layout without optional rows that do not fit; tries every row's plan on the predecessor as it was given.

    Raises:
        PlankwiseError: another row does not fit, or none does.
    """
    model = inputs.predecessor.model
    assert model is not None
    unfit: dict[str, PlankwiseError] = {}
    for label, config in layout.rows.items():
        try:
            inputs.run.task.check_config(config)
            check_plan(config, model)
            check_augmentation(replace(inputs.run, config=config))
        except (ConfigError, DataError, PlanError) as error:
            unfit[label] = type(error)(f"row {label!r} of {layout.recipe}: {error}")
    for label, reason in unfit.items():
        if label not in layout.optional or len(unfit) == len(layout.rows):
            raise reason
        console.print(f"left out: {reason}", soft_wrap=True)
    return replace(layout, configs={key: config for key, config in layout.configs.items() if key[0] not in unfit})
