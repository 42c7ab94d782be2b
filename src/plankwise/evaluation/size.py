"""How big a model is."""

from collections.abc import Iterable

from torch import nn

from plankwise.families import group_parameters


def count_parameters(model: nn.Module) -> int:
    """All parameters, those that are shared counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


def count_by_component(model: nn.Module, chains: Iterable[str]) -> dict[str, int]:
    """The parameters in the embeddings (also where a head shares them), in the blocks of the chains at these paths, and in
    the head; those that are shared are counted once, and what the model itself holds beside its chains with the embeddings."""
    paths = set(chains)
    groups = group_parameters(model, paths)
    inside = tuple(f"{path}." for path in paths)
    counts = {"embeddings": 0, "blocks": 0, "head": 0}
    for name, parameter in model.named_parameters():
        component = "blocks" if name.startswith(inside) else groups.get(name, "embeddings")
        counts[component] += parameter.numel()
    return counts
