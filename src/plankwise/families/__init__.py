"""What is known of model families: the general rule for Hugging Face models here, one file for each that needs more.

A family's file is named after its `config.model_type` (with `_` for `-`) and may offer:

    check(model)                    refuses with a PlanError that says why
    shorten(config, path, kept)     config entries of its own, once the chain at `path` keeps the blocks at the indices `kept`
"""

import copy
from types import ModuleType
from typing import Any

from torch import nn

from plankwise.core.chain import Chain, find_chains
from plankwise.errors import PlanError
from plankwise.kinds import list_kinds, load_kind


def family_of(model: nn.Module) -> ModuleType | None:
    """The family's own module, or None."""
    name = str(getattr(getattr(model, "config", None), "model_type", "")).replace("-", "_")
    return load_kind("families", name, key="model_type") if name in list_kinds("families") else None


def chains_of(model: nn.Module, paths: list[str] | None = None) -> list[Chain]:
    """The model's chains.

    Raises:
        PlanError: it has none, or its family cannot be compressed this way.
    """
    family = family_of(model)
    if family is not None and hasattr(family, "check"):
        family.check(model)
    return find_chains(model, paths)


def disable_layerdrop(model: nn.Module) -> None:
    """Switches off a model's own skipping of blocks at random: the replacing coin alone decides what runs."""
    for module in model.modules():
        if isinstance(getattr(module, "layerdrop", None), float):
            module.layerdrop = 0.0  # type: ignore[assignment]


def shortened(model: nn.Module, kept: dict[str, list[int]]) -> Any:
    """A copy of the model's config in which each chain, by path, has only the blocks at the kept indices."""
    config: Any = copy.deepcopy(model.config)
    family = family_of(model)
    for path, indices in kept.items():
        shorten_config(config, path, indices)
        if family is not None and hasattr(family, "shorten"):
            family.shorten(config, path, indices)
    return config


def shorten_config(config: Any, path: str, kept: list[int]) -> None:
    """Writes a chain's new depth into the config, and cuts the config's per-layer lists to the kept indices.

    Raises:
        PlanError: the config does not say how deep the chain is.
    """
    if (stage := _stage_of(config, path)) is not None:
        config.depths = [len(kept) if index == stage else depth for index, depth in enumerate(config.depths)]
        return
    owner = config if hasattr(config, "num_hidden_layers") or config.is_encoder_decoder else config.get_text_config()
    key = count_key(owner, path)
    if not hasattr(owner, key):
        raise PlanError(
            f"a {config.model_type} config does not say how many blocks {path} has, so it cannot describe a shorter one; "
            "keep the number of blocks: give plan.spans of one block each, or plan.slots"
        )
    before = getattr(owner, key)
    for name, value in owner.to_dict().items():
        if "layer" in name and isinstance(value, list | tuple) and len(value) == before:
            setattr(owner, name, [value[index] for index in kept])
    setattr(owner, key, len(kept))


def _stage_of(config: Any, path: str) -> int | None:
    """Of a chain inside a stage (Swin, ResNet), the stage's place in the config's list of depths."""
    depths = getattr(config, "depths", None)
    places = [int(name) for name in path.split(".") if name.isdecimal()]
    return places[0] if isinstance(depths, list | tuple) and places and places[0] < len(depths) else None


def count_key(config: Any, path: str) -> str:
    """The config entry that holds the depth of the chain at `path`."""
    if getattr(config, "is_encoder_decoder", False):
        side = "decoder" if "decoder" in path.split(".") else "encoder"
        for key in (f"{side}_layers", f"num_{side}_layers", "num_layers"):
            if hasattr(config, key):
                return key
    return "num_hidden_layers"


def group_parameters(model: nn.Module, chain_paths: set[str]) -> dict[str, str]:
    """Each parameter outside the chains, by name, with its group: `embeddings` (also where a head shares them) or `head`."""
    find: Any = getattr(model, "get_input_embeddings", lambda: None)
    try:
        embedding = find()
    except NotImplementedError:  # what transformers raises for a model that has none, ResNet for example
        embedding = None
    groups: dict[str, str] = {}
    for path, module in _outermost(model, "", chain_paths):
        inner = list(module.modules())
        embeds = any(item is embedding or isinstance(item, nn.Embedding) for item in inner)
        for name, _ in module.named_parameters(prefix=path, remove_duplicate=False):
            groups[name] = "embeddings" if embeds else "head"
    weights = dict(model.named_parameters(remove_duplicate=False))
    tied = {id(weights[name]) for name, group in groups.items() if group == "embeddings"}
    return {name: "embeddings" if id(weights[name]) in tied else group for name, group in groups.items()}


def head_of(model: nn.Module) -> set[str]:
    """The names of the parameters behind the chains that are not shared with the embeddings."""
    groups = group_parameters(model, {chain.path for chain in chains_of(model)})
    return {name for name, group in groups.items() if group == "head"}


def _outermost(module: nn.Module, path: str, chain_paths: set[str]) -> list[tuple[str, nn.Module]]:
    """The outermost modules that hold no chain and lie in none."""
    if path in chain_paths:
        return []
    if not any(chain == path or chain.startswith(f"{path}.") or not path for chain in chain_paths):
        return [(path, module)]
    return [
        pair
        for name, child in module.named_children()
        for pair in _outermost(child, f"{path}.{name}" if path else name, chain_paths)
    ]
