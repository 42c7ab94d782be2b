"""The general rule for Hugging Face models: find the chains, shorten the config, tell embeddings from head.

A family that needs more has a file named after its `config.model_type`, which may offer:
`check(model)`, to refuse with a PlanError that says why; `shorten(config, path, kept)`, for config entries of its own.
"""

import copy
import importlib
from typing import Any

import torch
from torch import nn

from plankwise.core.chain import Chain, find_chains
from plankwise.core.plan import Plan
from plankwise.errors import PlanError
from plankwise.kinds import list_kinds


def family_of(model: nn.Module) -> Any:
    """The family's own module, or None."""
    name = getattr(getattr(model, "config", None), "model_type", None)
    return importlib.import_module(f"plankwise.families.{name}") if name in list_kinds("families") else None


def chains_of(model: nn.Module, paths: list[str] | None = None) -> list[Chain]:
    """The model's chains.

    Raises:
        PlanError: it has none, or its family cannot be compressed this way.
    """
    family = family_of(model)
    if hasattr(family, "check"):
        family.check(model)
    return find_chains(model, paths)


def calm(model: nn.Module) -> None:
    """Switches off what would skip blocks at random: the coin alone decides what runs."""
    for module in model.modules():
        if isinstance(getattr(module, "layerdrop", None), float):
            module.layerdrop = 0.0  # type: ignore[assignment]


def rebuild(successor: nn.Module, plan: Plan, lengths: dict[str, int]) -> nn.Module:
    """The collapsed model made anew from a config of its own depth, as `from_pretrained` would make it.

    So layer numbers, caches, attention types and stacks' own configs are right. `lengths`: blocks per chain before.

    Raises:
        PlanError: the family's config cannot describe the successor.
    """
    config: Any = copy.deepcopy(successor.config)
    for path, length in lengths.items():
        followers = {index for slot in plan.slots if slot.path == path for index in slot.span[1:]}
        shorten_config(config, path, [index for index in range(length) if index not in followers])
        family = family_of(successor)
        if hasattr(family, "shorten"):
            family.shorten(config, path, [index for index in range(length) if index not in followers])
    state = successor.state_dict()
    first = next(iter(state.values()))
    with torch.random.fork_rng():
        model = type(successor)(config)
    model = model.to(device=first.device, dtype=next(successor.parameters()).dtype)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise PlanError(
            f"a {config.model_type} config cannot describe this successor, so it would not load with plain AutoModel "
            f"({str(error).splitlines()[1].strip()}); choose a plan of spans with part = 'layers'"
        ) from None
    if getattr(successor, "generation_config", None) is not None:
        model.generation_config = successor.generation_config
    return model.eval()


def shorten_config(config: Any, path: str, kept: list[int]) -> None:
    """Writes a chain's new depth into the config, and cuts the config's per-layer lists to the kept indices."""
    owner = config if hasattr(config, "num_hidden_layers") or config.is_encoder_decoder else config.get_text_config()
    before = getattr(owner, count_key(owner, path))
    for key, value in owner.to_dict().items():
        if "layer" in key and isinstance(value, list | tuple) and len(value) == before:
            setattr(owner, key, [value[index] for index in kept])
    setattr(owner, count_key(owner, path), len(kept))


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
    embedding = find()
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
