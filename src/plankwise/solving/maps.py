"""The linear maps of a module, in the order in which they run, found by running it.

A block of a transformer ends in y = a + Wg, or in y = norm(a + Wg): features g and state a come from what stands before the last
map W, so that the best W is a matter of least squares. The same holds of the map behind the attention, whose output is added to a
state before a norm; of any other map, the best is the one that gives what another module's map gives. Which map is which is seen
by running the module and by changing what a map gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from plankwise.core.slot import state_of
from plankwise.parts import is_norm

TOLERANCE = 1e-3


class Stop(Exception):  # noqa: N818  nothing went wrong
    """Leaves a forward pass once what is wanted has been computed."""


@dataclass
class Reading:
    """What a map's latest run took and gave."""

    features: torch.Tensor | None = None
    output: torch.Tensor | None = None
    total: torch.Tensor | None = None  # the output and what it is added to


@dataclass(frozen=True)
class Map:
    """A linear map of a module, by its path there; "" is the module itself."""

    path: str
    summed: bool = False  # its output is added to a state
    norm: str | None = None  # takes that sum; if none does, the sum is what the module gives

    def matrix(self, module: nn.Module) -> torch.Tensor:
        """The map as (inputs, outputs), in float64; a bias is the last row."""
        linear: Any = module.get_submodule(self.path)
        found = linear.weight.detach().double()
        found = found if isinstance(linear, Conv1D) else found.T
        return found if linear.bias is None else torch.cat([found, linear.bias.detach().double()[None]])

    def has_bias(self, module: nn.Module) -> bool:
        return module.get_submodule(self.path).bias is not None

    @torch.no_grad()
    def set_matrix(self, module: nn.Module, matrix: torch.Tensor) -> None:
        """Takes a matrix as `matrix` gives it."""
        linear: Any = module.get_submodule(self.path)
        if linear.bias is not None:
            linear.bias.copy_(matrix[-1])
            matrix = matrix[:-1]
        linear.weight.copy_(matrix if isinstance(linear, Conv1D) else matrix.T)


@contextmanager
def reading(module: nn.Module, maps: Sequence[Map], *, stop: bool = False) -> Iterator[dict[str, Reading]]:
    """While open, each run of the module fills in a reading for each map, by path; `stop`: it is left, by Stop, after the last."""
    readings = {one.path: Reading() for one in maps}
    missing: set[str] = set()

    def seen(path: str) -> None:
        missing.discard(path)
        if stop and not missing:
            raise Stop

    def watch(one: Map) -> Iterator[Any]:
        found = readings[one.path]

        def after_map(_: nn.Module, args: Any, output: Any) -> None:
            found.features, found.output = args[0].detach(), output.detach()
            if not one.summed:
                seen(one.path)

        def before_norm(_: nn.Module, args: Any) -> None:
            found.total = args[0].detach()
            seen(one.path)

        def after_all(_: nn.Module, args: Any, output: Any) -> None:
            found.total = state_of(output).detach()
            seen(one.path)

        yield module.get_submodule(one.path).register_forward_hook(after_map)
        if one.norm is not None:
            yield module.get_submodule(one.norm).register_forward_pre_hook(before_norm)
        elif one.summed:
            yield module.register_forward_hook(after_all)

    def begin(_: nn.Module, args: Any) -> None:
        missing.update(readings)

    handles = [module.register_forward_pre_hook(begin), *(handle for one in maps for handle in watch(one))]
    try:
        yield readings
    finally:
        for handle in handles:
            handle.remove()


def find_maps(module: nn.Module, run: Callable[[], Any]) -> list[tuple[Map, ...]]:
    """The maps of a module in the order of their run, those that read the same together; the last one is what the module ends in.

    `run()` runs the module in eval mode and gives its output. A map that runs several times is left out. Empty if the module does
    not end in a linear map.
    """
    ran = _order_of_run(module, run)
    names = [path for path, _, _ in ran]
    linears = [path for path, one, _ in ran if isinstance(one, nn.Linear | Conv1D)]
    if not linears or names.count(linears[-1]) > 1:
        return []
    behind = [path for path, one, _ in ran[names.index(linears[-1]) + 1 :] if is_norm(one)]
    ending = Map(linears[-1], summed=True, norm=behind[-1] if behind else None)
    if len(behind) > 1 or not _is_ending(ending, module, run):
        return []
    summed = {ending.path: ending}
    for place, (path, one, _) in enumerate(ran):
        before = [name for name in names[:place] if name in linears]
        if is_norm(one) and before and before[-1] not in summed and names.count(before[-1]) == names.count(path) == 1:
            found = Map(before[-1], summed=True, norm=path)
            if _is_summed(found, module, run):
                summed[found.path] = found
    groups: list[tuple[int, list[Map]]] = []
    for path, one, given in ran:
        if not isinstance(one, nn.Linear | Conv1D) or names.count(path) > 1:
            continue
        found = summed.get(path, Map(path))
        if groups and groups[-1][0] == id(given) and not found.summed:
            groups[-1][1].append(found)
        else:
            groups.append((id(given), [found]))
    return [tuple(maps) for _, maps in groups]


def _order_of_run(module: nn.Module, run: Callable[[], Any]) -> list[tuple[str, nn.Module, Any]]:
    """The innermost modules that a run calls, in their order, each with what it is given."""
    ran: list[tuple[str, nn.Module, Any]] = []

    def note(path: str) -> Any:
        return lambda one, args, output: ran.append((path, one, args[0] if args else None))

    inner = [(path, one) for path, one in module.named_modules() if not list(one.children())]
    handles = [one.register_forward_hook(note(path)) for path, one in inner]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return ran


def _is_ending(one: Map, module: nn.Module, run: Callable[[], Any]) -> bool:
    """Whether a map's output is summed up, and nothing but the norm, if there is one, comes behind the sum."""
    if not _is_summed(one, module, run):
        return False
    if one.norm is None:
        return True
    with reading(module, [one]) as found:
        output = state_of(run())
        total = found[one.path].total
    return _same(module.get_submodule(one.norm)(total), output)


def _is_summed(one: Map, module: nn.Module, run: Callable[[], Any]) -> bool:
    """Whether what a map's output is changed by is what the sum is changed by."""
    with reading(module, [one]) as found:
        run()
        first = found[one.path]
    output, before = first.output, first.total
    if before is None or output is None or before.shape != output.shape:
        return False
    drawn = torch.randn(output.shape, generator=torch.Generator().manual_seed(0)).to(output)
    shift = drawn * before.std().clamp_min(TOLERANCE)
    handle = module.get_submodule(one.path).register_forward_hook(lambda _, args, given: given + shift)
    with reading(module, [one]) as found:
        try:
            run()
        finally:
            handle.remove()
        after = found[one.path].total
    return after is not None and _same(after - before, shift)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and bool((one - other).norm() <= TOLERANCE * other.norm())
