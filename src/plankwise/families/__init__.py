"""What is known of model families: the general rule for Hugging Face models here, one file for each that needs more.

A family's file is named after its `config.model_type` (with `_` for `-`) and may offer:

    check(model)                    refuses with a PlanError that says why
    shorten(config, path, kept)     writes config entries of its own, once the chain at `path` keeps the blocks at the indices
                                    `kept`; gives True if that is all there is to write, and the general rule does not apply
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from plankwise.errors import PlanError
from plankwise.kinds import list_kinds, load_kind

if TYPE_CHECKING:
    from torch import nn

    from plankwise.core.chain import Chain

# Words in the names of config entries that list something for each layer: layer_types, attention_window, …
BY_LAYER = ("layer", "window", "pattern", "indexer_types", "intermediate_size")


def family_of(model: nn.Module) -> ModuleType | None:
    """The family's own module, or None."""
    name = str(getattr(getattr(model, "config", None), "model_type", "")).replace("-", "_")
    return load_kind("families", name, key="model_type") if name in list_kinds("families") else None


def chains_of(model: nn.Module, paths: list[str] | None = None) -> list[Chain]:
    """The model's chains.

    Raises:
        PlanError: it has none, or its family cannot be compressed this way.
    """
    from plankwise.core.chain import find_chains

    for module in _with_config(model):
        family = family_of(module)
        if family is not None and hasattr(family, "check"):
            family.check(module)
    return find_chains(model, paths)


def _with_config(model: nn.Module) -> list[nn.Module]:
    """The outermost modules that have a config: the model itself, or what a wrapper is around."""
    if hasattr(model, "config"):
        return [model]
    return [module for child in model.children() for module in _with_config(child)]


def disable_layerdrop(model: nn.Module) -> None:
    """Switches off a model's own skipping of blocks at random: the replacing coin alone decides what runs.

    Some modules read the share off their config (Wav2Vec2): they get a copy. The model's own config, of which the successor's is
    made, stays as it is.
    """
    outermost = _with_config(model)
    for module in model.modules():
        if isinstance(getattr(module, "layerdrop", None), float):
            module.layerdrop = 0.0  # type: ignore[assignment]
        config = vars(module).get("config")
        dropping = [key for key in vars(config) if key.endswith("layerdrop")] if hasattr(config, "__dict__") else []
        if dropping and module not in outermost:
            module.config = copy.copy(config)  # type: ignore[assignment]
            vars(module.config).update(dict.fromkeys(dropping, 0.0))


def shortened(model: nn.Module, kept: dict[str, list[int]]) -> Any:
    """A copy of the model's config in which each chain, by path, has only the blocks at the kept indices."""
    config: Any = copy.deepcopy(model.config)
    family = family_of(model)
    for path, indices in kept.items():
        if family is None or not hasattr(family, "shorten") or not family.shorten(config, path, indices):
            _shorten(_owner(model, config, path), path, indices)
    return config


def _owner(model: nn.Module, config: Any, path: str) -> Any:
    """Of a copy of the model's config, the config of the stack that the chain at `path` is in; CLIP has one for each of two."""
    given: Any = model.config
    inner = dict(_inner_configs(given))
    parts = path.split(".")
    for depth in range(len(parts) - 1, 0, -1):
        own = getattr(model.get_submodule(".".join(parts[:depth])), "config", None)
        same = [keys for keys, one in inner.items() if one is own]
        alike = same or [keys for keys, one in inner.items() if type(one) is type(own)]
        if len(alike) == 1:
            return functools.reduce(getattr, alike[0], config)
    return config if hasattr(config, "num_hidden_layers") or config.is_encoder_decoder else config.get_text_config()


def _inner_configs(config: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The configs inside a config, each with the keys that lead to it."""
    for key in getattr(config, "sub_configs", {}):
        if (inner := getattr(config, key, None)) is not None:
            yield (*above, key), inner
            yield from _inner_configs(inner, (*above, key))


def _shorten(config: Any, path: str, kept: list[int]) -> None:
    """Writes a chain's new depth into the config, and cuts the config's per-layer lists to the kept indices.

    A list that the family's file has cut already has another length, and is left as it is.

    Raises:
        PlanError: the config does not say how deep the chain is.
    """
    if (stage := _stage_of(config, path)) is not None:
        config.depths = [len(kept) if index == stage else depth for index, depth in enumerate(config.depths)]
        return
    key = count_key(config, path)
    if not hasattr(config, key):
        raise PlanError(
            f"a {config.model_type} config does not say how many blocks {path} has, so it cannot describe a shorter one; "
            "keep the number of blocks: give plan.spans of one block each, or plan.slots"
        )
    before = getattr(config, key)
    for name, value in config.to_dict().items():
        if any(word in name for word in BY_LAYER) and isinstance(value, list | tuple) and len(value) == before:
            setattr(config, name, [value[index] for index in kept])
    setattr(config, key, len(kept))
    if getattr(config, "out_indices", None) == [
        before
    ]:  # a backbone that gives its last layer's states: it goes on doing so
        config.stage_names = config.stage_names[: len(kept) + 1]
        config.set_output_features_output_indices(None, None)


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
    from torch import nn

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
    """The names of the parameters behind the chains that are not shared with the embeddings.

    In a model without a chain (ALBERT), those outside of the model that its family has for all tasks, and its pooler's.
    """
    from plankwise.core.chain import find_chains

    try:
        groups = group_parameters(model, {chain.path for chain in find_chains(model)})
    except PlanError:
        body = f"{getattr(model, 'base_model_prefix', '')}."
        names = dict(model.named_parameters()).keys()
        return {name for name in names if not name.startswith(body) or name.startswith(f"{body}pooler")}
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
