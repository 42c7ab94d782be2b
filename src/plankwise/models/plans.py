"""Plans for Hugging Face and plain torch models: made from options, tried out, and their successors built."""

import copy
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from plankwise import parts
from plankwise.core.chain import Chain, find_chains
from plankwise.core.hybrid import Hybrid, install
from plankwise.core.plan import Plan, Slot, checked_plan, even_plan, listed_plan, match_paths
from plankwise.core.schedule import Constant
from plankwise.errors import PlanError
from plankwise.families import chains_of, disable_layerdrop
from plankwise.models.collapsing import rebuild
from plankwise.models.loading import Loader


def make_plan(model: nn.Module, options: Any) -> Plan:
    """The plan that a config's [plan] section asks for.

    Raises:
        PlanError: it does not fit the model.
    """
    if options.slots is None:
        found = chains_of(model, options.chains)
        if options.spans is not None:
            return listed_plan(found, options.spans, options.part, options.options)
        return even_plan(found, options.successors, options.part, options.options)
    slots: list[Slot] = []
    for wanted in options.slots:
        part, own = options.part_of(wanted)
        slots += [Slot(path, tuple(wanted.span or ()), part, own) for path in match_paths(model, wanted.path)]
    return checked_plan(slots, _chains_or_none(model))


def build_successors(model: nn.Module, plan: Plan, *, init: str, seed: int) -> list[nn.Module]:
    """One successor a slot, each made by its part, with the weights that it starts from; the model is only read.

    Raises:
        PlanError: a part does not fit its slot, or does not know `init`.
    """

    def load(path: str) -> nn.Module:
        return Loader(device=next(model.parameters()).device).model(path, type(model)).model

    return parts.build_successors(model, plan, init=init, seed=seed, load=load)


def try_plan(model: nn.Module, plan: Plan, *, init: str, seed: int) -> nn.Module:
    """The successor without any training, made on a copy: what does not fit is found before training begins.

    Raises:
        PlanError: a part cannot be built.
    """
    return take_out(assemble(copy.deepcopy(model), plan, build_successors(model, plan, init=init, seed=seed)))


def assemble(model: nn.Module, plan: Plan, successors: list[nn.Module]) -> Hybrid:
    """The model, which becomes a hybrid of the plan, in eval mode: for any mask of spans and successors."""
    disable_layerdrop(model)
    hybrid = install(model, plan, successors, Constant())
    hybrid.eval()
    return hybrid


def take_out(hybrid: Hybrid) -> nn.Module:
    """The successor alone, as a model that loads by its own config."""
    lengths = {path: len(hybrid.get_submodule(path)) for path in hybrid.plan.chains}  # type: ignore[arg-type]
    successor = Hybrid.collapse(hybrid)
    return rebuild(successor, hybrid.plan, lengths) if isinstance(successor, PreTrainedModel) else successor


def reassemble(predecessor: nn.Module, successor: nn.Module, plan: Plan) -> Hybrid:
    """The hybrid of a predecessor, which becomes it, and the successor that was made from it by this plan."""
    # Built anew and filled: a block of the shorter model has its place there, which is another layer's in a cache here.
    modules = build_successors(predecessor, plan, init="lower", seed=0)
    for slot, module in zip(plan.slots, modules, strict=True):
        trained = successor.get_submodule(plan.after_collapse(slot.places[0]))
        module.load_state_dict(trained.state_dict())
    return assemble(predecessor, plan, modules)


def one_of(number: int, count: int) -> tuple[bool, ...]:
    """The mask in which only slot `number`, from 1, is replaced."""
    return tuple(index == number for index in range(1, count + 1))


def _chains_or_none(model: nn.Module) -> list[Chain]:
    try:
        return find_chains(model)
    except PlanError:
        return []
