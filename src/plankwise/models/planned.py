"""Successors that no config of their family describes: shared weights, low rank, another kind of block.

Such a successor is saved with its plan and its parts' options in `config.json`, under a `model_type` of its own:

    {"model_type": "plankwise", "family": "bert", "plan": [{"path": …, "span": …, "part": …, "options": …}],
     "ties": {…parameters that are one and the same, by name}, …the family's own keys}

The family's keys are those of the shortened model. It is made as the family makes it, then each slot's successor is built by
its part in the slot's place, then the weights are loaded by transformers itself. Where plankwise is not installed, transformers
knows no such model type and says so, and the family's own classes refuse the config; there is no way to wrong weights.

A classifier with early exits is saved under the same type, its plan empty where its family's config describes its blocks; what it
has beside them is in `exits`. So is a model whose matrices are packed on disk; how is in `packed` (see `packed.py`).
"""

import copy
from typing import Any

import torch
from torch import nn
from transformers.models.auto import modeling_auto

from plankwise.core.chain import Chain, find_chains
from plankwise.core.plan import Plan
from plankwise.errors import PlanError
from plankwise.kinds import list_kinds
from plankwise.models import exits
from plankwise.models.exit_heads import check_head
from plankwise.models.packed import Packing
from plankwise.models.planned_config import MODEL_TYPE, PlannedConfig
from plankwise.parts import OWN, rebuild_successors

_classes: dict[
    Any, Any
] = {}  # made once: planned config classes by family, planned model classes by family's class and config


def config_class(family: Any, *, leaving: bool = False) -> Any:
    """The planned config class of a family, known to every Auto class that knows the family; `leaving`: with early exits."""
    if (family, leaving) in _classes:
        return _classes[family, leaving]
    members: dict[str, Any] = {
        "model_type": MODEL_TYPE,
        "family_class": family,
        "leaving": leaving,
        "__module__": __name__,
    }
    if leaving:  # a Trainer's predictions are the logits alone
        members["keys_to_ignore_at_inference"] = [*getattr(family, "keys_to_ignore_at_inference", ()), "exits"]
    _classes[family, leaving] = kind = type(f"Planned{family.__name__}", (PlannedConfig, family), members)
    for name in dir(modeling_auto):
        mapping = getattr(getattr(modeling_auto, name), "_model_mapping", None)
        if name.startswith("AutoModel") and mapping is not None and family in mapping:
            known = mapping[family]
            for original in known if isinstance(known, list | tuple) else [known]:
                mapping.register(kind, model_class(original, kind), exist_ok=True)
                break
    return kind


def model_class(original: Any, config: Any) -> Any:
    """A subclass of the same name whose instances have the successors of their config's plan, and if they classify, its exits."""
    if (original, config) in _classes:
        return _classes[original, config]
    leaving = config.leaving and original is classifier_of(config.family_class)

    def build(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
        original.__init__(self, config, *args, **kwargs)
        # Some families make the model inside by an Auto class (Llama's classifier): then it has its successors already.
        if not any(type(module) in _classes.values() for module in self.children()):
            install_parts(self, Plan.from_json(config.plan))
        if leaving:
            exits.install_exits(self, config.exits["chain"])
        tie(self, config.ties)

    members = {"__init__": build, "config_class": config, "__module__": __name__, "__doc__": original.__doc__}
    bases = (exits.WithExits, Packing, original) if leaving else (Packing, original)
    members |= exits.with_forward(original) if leaving else {}
    _classes[original, config] = kind = type(original.__name__, bases, members)
    return kind


def classifier_of(family: Any) -> Any:
    """The class of a family's models that give each text a class or a number; None if it has none."""
    mapping: Any = modeling_auto.AutoModelForSequenceClassification._model_mapping  # type: ignore[attr-defined]
    return mapping.get(family, None)


def install_parts(model: Any, plan: Plan) -> None:
    """Puts the successors, not yet with their weights, where a model that the family made has its own modules.

    Raises:
        PlanError: a part is not installed, or is a module of the user's own.
    """
    for slot in plan.slots:
        if slot.part == OWN:
            raise PlanError(
                f"slot {slot} holds a module of your own, which cannot be built from config.json; build the model as you did, "
                "and load model.safetensors into it with safetensors.torch.load_model"
            )
        if slot.part not in list_kinds("parts"):
            raise PlanError(
                f"slot {slot} holds the part {slot.part!r}, which is not installed; install the package that brings it"
            )
    paths = {slot: _path_in(model, plan.after_collapse(slot.places[0])) for slot in plan.slots}
    modules = {slot: model.get_submodule(path) for slot, path in paths.items()}
    for slot, successor in rebuild_successors(plan, modules, model.config).items():
        model.set_submodule(paths[slot], successor)


def _path_in(model: Any, path: str) -> str:
    """The path in this class of the family, which may have the encoder at its top or inside."""
    prefix = f"{model.base_model_prefix}."
    inside = hasattr(model, model.base_model_prefix)
    if path.startswith(prefix) and not inside:
        return path.removeprefix(prefix)
    return path if path.startswith(prefix) or not inside or _has(model, path) else f"{prefix}{path}"


def _has(model: nn.Module, path: str) -> bool:
    return hasattr(model, path.partition(".")[0])


def find_ties(model: nn.Module) -> dict[str, str]:
    """Each parameter that is the same as one before it, by name, with that one's name."""
    first: dict[int, str] = {}
    names = [
        (name, first.setdefault(id(value), name)) for name, value in model.named_parameters(remove_duplicate=False)
    ]
    return {name: source for name, source in names if name != source}


def tie(model: Any, ties: dict[str, str]) -> None:
    """Makes parameters one and the same, and tells transformers of all that are: saved once, and tied again when loaded."""
    for name, source in ties.items():
        parent, _, last = _path_in(model, name).rpartition(".")
        setattr(model.get_submodule(parent), last, model.get_parameter(_path_in(model, source)))
    known = model.all_tied_weights_keys
    new = {name: source for name, source in find_ties(model).items() if name not in known}
    model.all_tied_weights_keys = {**known, **new}
    model._tied_weights_keys = {**(model._tied_weights_keys or {}), **{f"^{name}$": to for name, to in new.items()}}


def describe(successor: Any, plan: Plan, config: Any) -> Any:
    """The collapsed model as one that its family's `config` and the plan describe, with its weights."""
    family = type(config)
    data = {key: value for key, value in config.to_dict().items() if key not in ("model_type", "transformers_version")}
    ties = {
        name: source for name, source in find_ties(successor).items() if name not in successor.all_tied_weights_keys
    }
    planned = config_class(family)(**data, family=family.model_type, plan=plan.to_json(), ties=ties)
    planned._attn_implementation = config._attn_implementation
    kind = model_class(type(successor), type(planned))
    if any(slot.part == OWN for slot in plan.slots):  # it cannot be built anew, so it stays what it is
        successor.__class__, successor.config = kind, planned
        tie(successor, {})
        return successor
    with torch.random.fork_rng():
        model: Any = kind(copy.deepcopy(planned))
    model.load_state_dict(successor.state_dict())
    return model


def with_exits(model: Any, *, patience: int | None = None, tolerance: float = 0.1) -> Any:
    """The classifier itself, changed to one whose texts leave early; the head after each block starts as a copy of its own.

    `patience` is that of `exits`; with None, no text leaves until it is set. `tolerance`: numbers that differ by less are the same.

    Raises:
        ConfigError: the patience does not count.
        PlanError: it is not a classifier with one chain of blocks, or its family's blocks or head do not allow it.
    """
    if exits.has_exits(model):
        raise PlanError("the model has early exits already; set model.patience to another number")
    family = _family_of(model)
    exits.check_classifier(model, classifier_of(family))
    chain = _only_chain(model)
    check_head(model, model.get_submodule(chain.path))
    settings = {"chain": chain.path, "patience": chain.length, "tolerance": tolerance}
    config = _planned_config(model, leaving=True, exits=settings)
    model.__class__, model.config = model_class(classifier_of(family), type(config)), config
    exits.install_exits(model, chain.path)
    if patience is not None:
        model.patience = patience
    return model


def with_packing(model: Any, forms: dict[str, tuple[int, int]]) -> Any:
    """The model itself, changed to one whose rounded matrices are packed when it is saved.

    `forms`: bits and rows that share a scale, by the matrices' names.
    """
    if not isinstance(model.config, PlannedConfig):
        config = _planned_config(model, leaving=False)
        model.__class__, model.config = model_class(type(model), type(config)), config
    model.config.packed = {name: list(form) for name, form in forms.items()}
    return model


def _family_of(model: Any) -> Any:
    config = getattr(model, "config", None)
    return config.family_class if isinstance(config, PlannedConfig) else type(config)


def _planned_config(model: Any, *, leaving: bool, **more: Any) -> Any:
    """A planned config of the model's family with what the model's own says, the plan included if it has one."""
    family, own = _family_of(model), model.config.to_dict()
    data = {key: value for key, value in own.items() if key not in ("model_type", "transformers_version")}
    data |= {"family": family.model_type, "plan": data.get("plan", []), "ties": data.get("ties", {})}
    config = config_class(family, leaving=leaving)(**data, **more)
    config._attn_implementation = model.config._attn_implementation
    return config


def _only_chain(model: Any) -> Chain:
    try:
        found = find_chains(model)
    except PlanError:
        found = []
    if len(found) != 1:
        paths = f" ({', '.join(one.path for one in found)})" if found else " of two or more blocks of one kind"
        raise PlanError(
            f"early exits need one chain of blocks to leave, and the model has {len(found) or 'none'}{paths}; "
            "give an encoder's classifier, and a plan that keeps two or more blocks"
        )
    return found[0]
