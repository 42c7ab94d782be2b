"""A collapsed successor made anew, as `from_pretrained` makes it: by its family's config if that describes it, else by its plan."""

from typing import Any

import torch
from torch import nn

from plankwise.core.plan import Plan
from plankwise.errors import PlanError
from plankwise.families import shortened
from plankwise.models import planned

# What rebuilding is there to set right, and what is for training alone.
BY_PLACE = ("layer_idx", "layer_id", "layer_index", "layer_number", "training", "p", "drop_prob", "layerdrop")


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
    plain = _from_config(type(successor), config)
    if describes(plain, successor):
        plain.load_state_dict(state)
        model = plain
    else:
        model = planned.describe(successor, plan, config)
    _check_settings(model, successor, tuple(f"{path}." for path in plan.chains))
    model = model.to(device=next(iter(state.values())).device, dtype=next(successor.parameters()).dtype)
    if getattr(successor, "generation_config", None) is not None:
        model.generation_config = successor.generation_config
    return model.eval()


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
        with torch.random.fork_rng():
            return kind(config)
    except Exception as error:  # families check by assertions, by errors of their own, or by an index that is not there
        name = config.model_type.replace("-", "_")
        raise PlanError(
            f"a shortened {config.model_type} cannot be made from its config ({error}); this family needs a file of its own, "
            f"families/{name}.py or a plug-in's, whose `shorten` cuts what the config lists by block"
        ) from error
