"""Heads and feed-forward channels of a block: found by its modules, their attributes and shapes; taken out as rows and columns.

A channel and a head are the same thing here, a *unit*: rows of the maps that feed it, columns of the one map that reads it. Taking
a unit out changes a block's output exactly as a mask would that multiplies what the unit gives by 0.

The heads' maps are those that stand directly in a module that says how wide a head is. The map that reads the heads is the last of
them, or the only one beside them in the module above (BERT has it there). All other maps are the feed-forward network's, and the
last of these reads the channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plankwise.errors import PlanError

if TYPE_CHECKING:
    import torch
    from torch import nn

HEAD_SIZES = ("attention_head_size", "head_dim", "key_value_proj_dim")  # what attentions call the width of a head,
HEAD_COUNTS = ("num_attention_heads", "num_heads", "n_heads")  # the number of heads,
SHARED_COUNTS = ("num_key_value_heads",)  # that of heads of keys and values, where several heads read the same,
ALL_SIZES = ("all_head_size", "inner_dim", "split_size")  # and the width of all heads;
FFN_SIZES = ("intermediate_size", "ffn_dim", "hidden_dim")  # what feed-forward networks call their width
# Maps that give queries, keys and values, in this order, of all heads each; others mix them, head by head.
FUSED = ("c_attn", "Wqkv")
# A config that has this entry makes a bias for each head outside of the blocks, and hands it to all of them (T5, MPNet).
SHARED_BIAS = "relative_attention_num_buckets"


@dataclass(frozen=True)
class Feed:
    """A map whose outputs feed units: `times` over, one row of `size` outputs for each unit."""

    path: str
    size: int
    times: int = 1


@dataclass(frozen=True)
class Units:
    """Heads or channels of one place in a block; heads that share keys and values are one unit."""

    owner: str  # the module that they are in
    count: int
    feeds: tuple[Feed, ...]
    output: str  # the map that reads them
    size: int  # of a unit, as it is read


@dataclass(frozen=True)
class Found:
    """What of a block can be taken out; for what cannot, the reason."""

    heads: tuple[Units, ...] = ()
    ffn: Units | None = None
    no_heads: str = ""
    no_ffn: str = ""


def find_units(block: nn.Module) -> Found:
    """The heads and channels of a block."""
    maps = _maps(block)
    owners = [path for path, one in block.named_modules() if head_size(one) and _directly_in(path, maps)]
    heads: list[Units] = []
    reason = "" if owners else "no module in it says how wide a head is and holds linear maps"
    taken: set[str] = set()
    for owner in owners:
        own = _directly_in(owner, maps)
        above = owner.rpartition(".")[0]
        beside = [path for path in maps if path.startswith(f"{above}.") and path not in own] if above else []
        output = beside[0] if len(beside) == 1 else own[-1]
        taken |= {*own, output}
        try:
            heads.append(_heads(block, owner, [path for path in own if path != output], output))
        except PlanError as error:
            reason = str(error)
    rest = [path for path in maps if path not in taken]
    try:
        return Found(() if reason else tuple(heads), _channels(block, rest, maps), reason)
    except PlanError as error:
        return Found(() if reason else tuple(heads), None, reason, str(error))


def _maps(block: nn.Module) -> list[str]:
    """The block's linear maps, in the order in which they were made."""
    return [path for path, one in block.named_modules() if is_map(one)]


def is_map(module: nn.Module) -> bool:
    """Whether a module is a linear map, of torch or of GPT-2's making."""
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    return isinstance(module, nn.Linear | Conv1D)


def head_size(module: nn.Module) -> int | None:
    """How wide a head is, if a module says so of itself."""
    return next((value for name in HEAD_SIZES if isinstance(value := vars(module).get(name), int)), None)


def _directly_in(owner: str, maps: list[str]) -> list[str]:
    return [path for path in maps if path.rpartition(".")[0] == owner]


def _heads(block: nn.Module, owner: str, feeding: list[str], output: str) -> Units:
    module = block.get_submodule(owner)
    size = head_size(module)
    assert size is not None
    total, state = _shape(block, output)
    widths = {path: _shape(block, path)[1] for path in feeding}
    if len(feeding) == 1 and feeding[0].rpartition(".")[2] in FUSED and widths[feeding[0]] == 3 * total:
        widths, times = {feeding[0]: total}, 3
    else:
        times = 1
    narrow = min(widths.values(), default=0)
    reads = {_shape(block, path)[0] for path in feeding}
    if not narrow or narrow % size or total % narrow or set(widths.values()) - {narrow, total} or state not in reads:
        found = ", ".join(f"{path} gives {_shape(block, path)[1]}" for path in feeding)
        raise PlanError(
            f"heads are {size} wide, and {output} is taken to read {total}, but {found or 'no map feeds it'}"
        )
    _refuse_others(module, owner, [*feeding, output], {narrow, total, total // size}, size)
    count = narrow // size
    return Units(
        owner, count, tuple(Feed(path, width // count, times) for path, width in widths.items()), output, total // count
    )


def _refuse_others(module: nn.Module, owner: str, maps: list[str], widths: set[int], size: int) -> None:
    """Refuses weights beside the maps that are as wide as the heads are many, or as all heads are wide."""
    for name, value in module.named_parameters():
        path = f"{owner}.{name}" if owner else name
        by_head = value.dim() == 1 and len(value) == size  # a norm that all heads share
        if path.rpartition(".")[0] not in maps and not by_head and widths & set(value.shape):
            raise PlanError(f"{path} has {' x '.join(map(str, value.shape))} weights for its heads")


def _channels(block: nn.Module, maps: list[str], others: list[str]) -> Units:
    if len(maps) < 2:
        raise PlanError(f"beside its attention it has {len(maps)} linear maps, not two or three")
    *feeding, output = maps
    count, width = _shape(block, output)
    shapes = [_shape(block, path) for path in feeding]
    fused = shapes == [(width, 2 * count)]
    if not fused and (len(feeding) > 2 or set(shapes) != {(width, count)}):
        found = ", ".join(f"{path} {one} to {other}" for path in maps for one, other in [_shape(block, path)])
        raise PlanError(f"its maps beside the attention are not those of one feed-forward network: {found}")
    owner = output.rpartition(".")[0]
    if count != width:
        _refuse_norms(block, others, count)
    return Units(owner, count, tuple(Feed(path, 1, 2 if fused else 1) for path in feeding), output, 1)


def _refuse_norms(block: nn.Module, maps: list[str], count: int) -> None:
    for name, value in block.named_parameters():
        path = name.rpartition(".")[0]
        if path not in maps and value.dim() == 1 and len(value) == count:
            raise PlanError(f"{name} is as wide as the feed-forward network")


def _shape(block: nn.Module, path: str) -> tuple[int, int]:
    """How many inputs and outputs a map has."""
    linear: Any = block.get_submodule(path)
    shape = tuple(linear.weight.shape)
    return shape if _is_conv(linear) else (shape[1], shape[0])


def _is_conv(linear: nn.Module) -> bool:
    from transformers.pytorch_utils import Conv1D

    return isinstance(linear, Conv1D)


def rows_of(feed: Feed, count: int, kept: torch.Tensor) -> torch.Tensor:
    """Which outputs of a map feed the kept ones of so many units."""
    import torch

    places = torch.arange(feed.times * count * feed.size, device=kept.device).view(feed.times, count, feed.size)
    return places[:, kept].flatten()


def keep_units(block: nn.Module, units: Units, kept: torch.Tensor) -> dict[str, torch.Tensor]:
    """Takes all units but the kept ones out of a block; gives the rows that maps keep, by path."""
    rows = {feed.path: rows_of(feed, units.count, kept) for feed in units.feeds}
    for path, some in rows.items():
        _select(block.get_submodule(path), some, outputs=True)
    _select(
        block.get_submodule(units.output), rows_of(Feed(units.output, units.size), units.count, kept), outputs=False
    )
    owner = block.get_submodule(units.owner)
    for name, number in _numbers(owner, units, len(kept)).items():
        if name in vars(owner):
            setattr(owner, name, number)
    return rows


def _numbers(owner: nn.Module, units: Units, count: int) -> dict[str, int]:
    """What a module is to say of its width, under any of the names for it, once so many units are left."""
    size = head_size(owner)
    if size is None:
        return dict.fromkeys(FFN_SIZES, count)
    heads = dict.fromkeys(HEAD_COUNTS, count * units.size // size)
    return heads | dict.fromkeys(SHARED_COUNTS, count) | dict.fromkeys(ALL_SIZES, count * units.size)


def _select(linear: Any, places: torch.Tensor, *, outputs: bool) -> None:
    from torch import nn

    conv = _is_conv(linear)
    weight = linear.weight.detach().index_select(1 if outputs == conv else 0, places)
    linear.weight = nn.Parameter(weight, requires_grad=linear.weight.requires_grad)
    if outputs and linear.bias is not None:
        linear.bias = nn.Parameter(
            linear.bias.detach().index_select(0, places), requires_grad=linear.bias.requires_grad
        )
    name = ("nf" if outputs else "nx") if conv else ("out_features" if outputs else "in_features")
    setattr(linear, name, len(places))


def matrix(block: nn.Module, path: str) -> torch.Tensor:
    """A map's weights as (inputs, outputs)."""
    linear: Any = block.get_submodule(path)
    return linear.weight.detach() if _is_conv(linear) else linear.weight.detach().T


def weigh_units(block: nn.Module, units: Units) -> torch.Tensor:
    """How much units weigh where no texts are at hand: the norm of what reads them times the norm of what feeds them."""
    read = matrix(block, units.output).unflatten(0, (units.count, units.size)).flatten(1)
    fed = sum(
        matrix(block, feed.path).unflatten(1, (feed.times, units.count, feed.size)).square().sum((0, 1, 3))
        for feed in units.feeds
    )
    return read.norm(dim=1) * fed**0.5
