"""What came with a model against what it is made of: weights that are missing would be random, without a word."""

from collections.abc import Collection
from typing import Any

from torch import nn

from plankwise.errors import ConfigError
from plankwise.families import head_of


def check_weights(
    model: nn.Module, missing: Collection[str], unexpected: Collection[str], path: str, *, new_head: bool
) -> None:
    """Compares the weights that were read with the model's; what its family declares to be ignorable is in neither list.

    A new head may be missing. Weights of a module that the model does not have (the head of another task) may be there.

    Raises:
        ConfigError: other weights are missing, or belong into modules that the model has.
    """
    head = head_of(model)
    parents = {name.rpartition(".")[0] for name in head} if new_head else set()
    lost = sorted(name for name in missing if name.rpartition(".")[0] not in parents)
    odd = sorted(name for name in unexpected if _belongs(model, name, head, new_head=new_head))
    if not lost and not odd:
        return
    found = [f"has no weights for {_count(lost)}, which would be random"] if lost else []
    found += [f"has weights for {_count(odd)}, which the model of its config.json does not have"] if odd else []
    if any(".successor." in name for name in odd):
        raise ConfigError(
            f"{path} {' and '.join(found)}: they are a hybrid's, saved while it was trained; load them into the same hybrid "
            "(trainer.train(resume_from_checkpoint=...)), then save ship.collapse() and give that folder"
        )
    raise ConfigError(
        f"{path} {' and '.join(found)}; give a folder that save_pretrained wrote whole, whose config.json belongs to its weights"
    )


def _count(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _belongs(model: Any, name: str, head: set[str], *, new_head: bool) -> bool:
    """Whether a weight that has no place would have stood inside a module that the model has, and not beside its own modules.

    In a head, only if that is kept, and the module itself has weights.
    """
    place = _nearest(model, name)
    if name.endswith(".masked_bias") or name in dict(model.named_buffers()):
        return False  # what older versions of transformers saved, and newer ones compute
    if place in ("", getattr(model, "base_model_prefix", "")):
        return False
    module = model.get_submodule(place)
    if any(f"{place}.{key}" in head for key, _ in module.named_parameters()):
        return not new_head and next(module.parameters(recurse=False), None) is not None
    return True


def _nearest(model: nn.Module, name: str) -> str:
    """The path of the innermost module of the model that the weight's name leads to."""
    modules = {path for path, _ in model.named_modules(remove_duplicate=False)}
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name
