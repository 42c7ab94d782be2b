"""A collapsed successor made anew, as `from_pretrained` makes it: by its family's config if that describes it, else by its plan."""

import copy
import dataclasses
import json
from typing import Any

import torch
from torch import nn

from plankwise.core.plan import Plan
from plankwise.errors import PlanError
from plankwise.families import shortened
from plankwise.models import planned
from plankwise.models.hybrids import outermost_models
from plankwise.models.quiet import quiet
from plankwise.parts import configure

# What rebuilding is there to set right, and what is for training alone.
BY_PLACE = ("layer_idx", "layer_id", "layer_index", "layer_number", "training", "p", "drop_prob", "layerdrop")
OWN_COUNTS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer", "depth")


def rebuild(successor: Any, plan: Plan, lengths: dict[str, int]) -> nn.Module:
    """The collapsed model made from a config of its own, so that layer numbers, caches and stacks' own configs are right.

    `lengths`: the blocks of each chain before. A plain model of its family where the family's config describes the result, shared
    weights included; else one whose config holds the plan.

    Raises:
        PlanError: the config does not say how deep a chain is, gives blocks other settings by their place, or cannot be shortened
            by the general rule.
    """
    config = shortened(successor, {path: plan.kept(path, length) for path, length in lengths.items()})
    state = successor.state_dict()
    plain = _find_plain(successor, plan, config)
    if plain is not None:
        plain.load_state_dict(state)
        model = plain
    else:
        model = planned.describe(successor, plan, config)
    _check_settings(model, successor, tuple(f"{path}." for path in plan.chains))
    model = model.to(device=next(iter(state.values())).device, dtype=next(successor.parameters()).dtype)
    if getattr(successor, "generation_config", None) is not None:
        model.generation_config = successor.generation_config
    return model.eval()


def _find_plain(successor: Any, plan: Plan, config: Any) -> Any:
    """A model that the family makes and that is like the successor, by a config that the plan's part may have changed; or None."""
    plain = _from_config(type(successor), config)
    if describes(plain, successor):
        return plain
    own = copy.deepcopy(config)
    if not configure(plan, own, plain):
        return None
    plain = _from_config(type(successor), own)
    return plain if describes(plain, successor) else None


def rebuild_inside(wrapper: nn.Module, plan: Plan, lengths: dict[str, int]) -> nn.Module:
    """A collapsed module that is not a Hugging Face model itself, with those inside it made anew: their configs say what they are.

    What the wrapper shares with a model inside it stays shared: parameters, and the config if it is the same object.

    Raises:
        PlanError: as `rebuild` does.
    """
    ties = planned.find_ties(wrapper)
    models = list(outermost_models(wrapper))
    for chain, length in lengths.items():
        if not chain.startswith(tuple(f"{path}." for path, _ in models)):
            _shorten_own(wrapper, length, len(plan.kept(chain, length)))
    for path, model in models:
        own = plan.inside(path)
        if not own.slots:
            continue
        below = f"{path}."
        inner = {chain.removeprefix(below): length for chain, length in lengths.items() if chain.startswith(below)}
        new = rebuild(model, own, inner)
        for place in [other for other, one in wrapper.named_modules(remove_duplicate=False) if one is model]:
            wrapper.set_submodule(place, new)
        for module in wrapper.modules():
            if vars(module).get("config") is model.config:
                module.config = new.config
    for name, source in ties.items():
        parent, _, last = name.rpartition(".")
        setattr(wrapper.get_submodule(parent), last, wrapper.get_parameter(source))
    return wrapper


def _shorten_own(wrapper: nn.Module, before: int, after: int) -> None:
    """Writes the new depth into the configs of a module of the user's own, under the names that configs have for it."""
    for module in wrapper.modules():
        config = vars(module).get("config")
        for key in OWN_COUNTS:
            if isinstance(config, dict) and config.get(key) == before:
                config[key] = after
            elif getattr(config, key, None) == before:
                try:
                    setattr(config, key, after)
                except dataclasses.FrozenInstanceError:  # it is the successor's own copy, so it may be written to
                    object.__setattr__(config, key, after)


def describes(plain: nn.Module, successor: nn.Module) -> bool:
    """Whether a model that the family makes is like the successor: the same classes, shapes and shared weights, by name."""
    return _structure(plain) == _structure(successor)


def _structure(model: nn.Module) -> tuple:
    modules = {name: type(module) for name, module in model.named_modules(remove_duplicate=False) if name}
    shapes = {name: value.shape for name, value in model.state_dict().items()}
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return modules, shapes, sorted(names.values())


def _check_settings(model: nn.Module, successor: nn.Module, inside: tuple[str, ...]) -> None:
    """Compares what blocks keep beside their weights: a family may make one otherwise by its place in the chain (Swin's shifts)."""
    made = dict(model.named_modules())
    blocks = [(name, module) for name, module in successor.named_modules() if name.startswith(inside) and name in made]
    for name, module in blocks:
        for key, value in vars(module).items():
            told = isinstance(value, int | float | str | tuple) and not key.startswith("_") and key not in BY_PLACE
            if told and vars(made[name]).get(key, value) != value:
                raise PlanError(
                    f"{name}.{key} is {value} in the successor, but {vars(made[name])[key]} in the model that its config makes: "
                    "blocks of this family differ by their place in the chain; choose plan.spans that put blocks of the same "
                    "kind into each place"
                )


def _from_config(kind: Any, config: Any) -> Any:
    try:
        with (
            quiet()
        ):  # read back as from config.json: finds entries that a family makes again from others, not shortened
            type(config).from_dict(json.loads(config.to_json_string()))
        with torch.random.fork_rng():
            return kind(config)
    except Exception as error:  # families check by assertions, by errors of their own, or by an index that is not there
        name = config.model_type.replace("-", "_")
        raise PlanError(
            f"a shortened {config.model_type} cannot be made from its config ({error}); this family needs a file of its own, "
            f"families/{name}.py or a plug-in's, whose `shorten` cuts what the config lists by block"
        ) from error
