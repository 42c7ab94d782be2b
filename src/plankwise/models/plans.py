"""Plans for Hugging Face and plain torch models: made from options, tried out, and their successors built."""

import copy
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from plankwise import parts
from plankwise.core.chain import Chain, find_chains
from plankwise.core.hybrid import Hybrid, install
from plankwise.core.plan import (
    Plan,
    Slot,
    checked_plan,
    each_plan,
    even_plan,
    graded_plan,
    late_plan,
    listed_plan,
    match_paths,
)
from plankwise.core.schedule import Constant
from plankwise.errors import ConfigError, PlanError, PlankwiseError
from plankwise.families import chains_of, disable_layerdrop
from plankwise.models.collapsing import rebuild, rebuild_inside
from plankwise.models.hybrids import unlabel_inside
from plankwise.models.loading import Loader
from plankwise.models.planned import model_class
from plankwise.models.planned_config import PlannedConfig
from plankwise.models.sentences import SentenceEncoder
from plankwise.parts import thin
from plankwise.plan_options import TAPERED


def make_plan(model: nn.Module, options: Any) -> Plan:
    """The plan that a config's [plan] section asks for.

    Raises:
        PlanError: it does not fit the model.
    """
    check_model(model)
    if options.slots is None:
        found = chains_of(model, options.chains)
        if options.spans is not None:
            return listed_plan(found, options.spans, options.part, options.options)
        if options.cut == "each":
            return each_plan(found, options.part, options.options)
        if options.cut == TAPERED:
            return graded_plan(found, options.part, _grades(model, found, options.options))
        cut = late_plan if options.cut == "late" else even_plan
        return cut(found, options.successors, options.part, options.options)
    slots: list[Slot] = []
    for wanted in options.slots:
        part, own = options.part_of(wanted)
        slots += [Slot(path, tuple(wanted.span or ()), part, own) for path in match_paths(model, wanted.path)]
    return arrange(model, slots)


def _grades(model: nn.Module, chains: list[Chain], given: dict[str, Any]) -> list[dict[str, Any] | None]:
    """What thin blocks keep, from below; all of their heads where one of them cannot lose any."""
    kept: dict[str, Any] = {}
    try:
        for chain in chains:
            for block in model.get_submodule(chain.path).children():
                parts.removable_heads(block, getattr(model, "config", None))
    except PlanError:
        kept = {"heads": 1.0}
    return [grade and {**grade, **kept, **given} for grade in thin.TAPER]


def arrange(model: nn.Module, slots: list[Slot]) -> Plan:
    """The plan of these slots, in the order in which they run.

    Raises:
        PlanError: they overlap, or a span does not fit its chain.
    """
    return in_order(model, checked_plan(slots, _chains_or_none(model)))


def in_order(model: nn.Module, plan: Plan) -> Plan:
    """The plan with its slots in the order in which the model's modules were made, which is that of their run."""
    order = {path: place for place, (path, _) in enumerate(model.named_modules(remove_duplicate=False))}
    return Plan(tuple(sorted(plan.slots, key=lambda slot: order[slot.places[0]])))


def check_model(model: Any) -> None:
    """Lets models pass whose weights can be trained and taken apart.

    Raises:
        ConfigError: it is not a model, but the name of one, say.
        PlanError: it is a hybrid, has adapters, or is quantised.
    """
    if not isinstance(model, nn.Module):
        what = "the name or folder of one" if isinstance(model, str | Path) else f"a {type(model).__name__}"
        raise ConfigError(
            f"a loaded model is needed, but {model!r} is {what}; load it first, for example with "
            f"AutoModelForSequenceClassification.from_pretrained(...), or use `plankwise compress` with predecessor.path"
        )
    if isinstance(model, Hybrid):
        raise PlanError("the model is a hybrid already; collapse it first, or start from the predecessor")
    for module in model.modules():
        if hasattr(module, "merge_and_unload") or getattr(module, "peft_config", None):
            raise PlanError(
                f"{type(module).__name__} has adapters of peft, whose weights stand beside the blocks' own; merge them first: "
                "model = model.merge_and_unload(), then compress that"
            )
    if (found := _quantised(model)) is not None:
        raise PlanError(
            f"the model is quantised ({found}), and successors cannot be trained from such weights; load it in floating point, "
            "without quantization_config, and quantise its successor afterwards"
        )


def _quantised(model: nn.Module) -> str | None:
    """What shows that a model is quantised, or None."""
    for path, module in model.named_modules():
        settings = getattr(getattr(module, "config", None), "quantization_config", None)
        if settings is not None:
            return f"{type(module).__name__} has a quantization_config"
        if "quantized" in type(module).__module__.split("."):
            return f"{path} is a {type(module).__module__}.{type(module).__name__}"
    for name, parameter in model.named_parameters():
        if not parameter.is_floating_point() and not parameter.is_complex():
            return f"{name} is {parameter.dtype}"
    return None


def build_successors(model: nn.Module, plan: Plan, *, init: str, seed: int) -> list[nn.Module]:
    """One successor a slot, each made by its part, with the weights that it starts from; the model is only read.

    Raises:
        PlanError: a part does not fit its slot, or does not know `init`.
    """

    def load(path: str) -> nn.Module:
        loader = Loader(device=next(model.parameters()).device)
        encoder = model if isinstance(model, SentenceEncoder) else None
        kind, config = type(model if encoder is None else encoder.model), loader.config(path)
        if isinstance(config, PlannedConfig):  # whose blocks are not those of the model's own class
            kind = model_class(kind, type(config))
        loaded = loader.model(path, kind, new_head=True).model
        return loaded if encoder is None else SentenceEncoder(loaded, encoder.files)

    return parts.build_successors(model, plan, init=init, seed=seed, load=load)


def try_plan(model: nn.Module, plan: Plan, *, init: str, seed: int) -> nn.Module:
    """The successor without any training, made on a copy: what does not fit is found before training begins.

    Raises:
        PlanError: a part cannot be built, or the successor cannot be taken out.
    """
    return _try_out(model, plan, build_successors(model, plan, init=init, seed=seed), {})


def assemble(model: nn.Module, plan: Plan, successors: list[nn.Module]) -> Hybrid:
    """The model, which becomes a hybrid of the plan, in eval mode: for any mask of spans and successors."""
    disable_layerdrop(model)
    hybrid = install(model, plan, successors, Constant())
    hybrid.eval()
    return hybrid


def take_out(hybrid: Hybrid) -> nn.Module:
    """The successor alone, as a model that loads by its own config; of a wrapper around such a model, the wrapper around it."""
    lengths = {path: len(hybrid.get_submodule(path)) for path in hybrid.plan.chains}  # type: ignore[arg-type]
    successor = Hybrid.collapse(hybrid)
    unlabel_inside(successor)
    plan = parts.finish(successor, hybrid.plan)
    make = rebuild if isinstance(successor, PreTrainedModel) else rebuild_inside
    return make(successor, plan, lengths)


def check_collapse(model: nn.Module, plan: Plan, successors: list[nn.Module]) -> None:
    """Finds out before training what `take_out` would refuse after it; model and successors stay as they are.

    It is done on copies without weights, which take next to no memory. Only where that fails are the weights copied too, to be sure
    that it was not for lack of them.

    Raises:
        PlanError: the successor cannot be taken out of this model.
    """
    try:
        with torch.device("meta"):
            _try_out(model, plan, successors, _without_values(model, successors))
    except Exception:
        _try_out(model, plan, successors, {})


def _try_out(model: nn.Module, plan: Plan, successors: list[nn.Module], memo: dict[int, Any]) -> nn.Module:
    """The successor of copies of the model and the successors; `memo` says what of them is not copied."""
    try:
        copied, others = copy.deepcopy((model, successors), memo)
        return take_out(assemble(copied, plan, others))
    except PlankwiseError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        raise PlanError(
            f"the successor could not be taken out of a {type(model).__name__} after training ({type(error).__name__}: {reason}); "
            "make the model one that copy.deepcopy copies, or, if its config describes no shorter one, add its family's file, "
            "families/ or a plug-in's"
        ) from error


def _without_values(model: nn.Module, successors: list[nn.Module]) -> dict[int, Any]:
    """For `copy.deepcopy`: each tensor as one that has its shape alone."""
    memo: dict[int, Any] = {}
    for module in (model, *successors):
        for parameter in module.parameters():
            memo[id(parameter)] = nn.Parameter(parameter.detach().to("meta"), requires_grad=parameter.requires_grad)
        for buffer in module.buffers():
            memo[id(buffer)] = buffer.to("meta")
    return memo


def reassemble(predecessor: nn.Module, successor: nn.Module, plan: Plan) -> Hybrid:
    """The hybrid of a predecessor, which becomes it, and the successor that was made from it by this plan."""
    # Built anew and filled: a block of the shorter model has its place there, which is another layer's in a cache here.
    modules = build_successors(predecessor, plan, init="lower", seed=0)
    for number, slot in enumerate(plan.slots):
        trained = successor.get_submodule(plan.after_collapse(slot.places[0]))
        if type(trained) is type(modules[number]):
            modules[number].load_state_dict(trained.state_dict())
        else:  # what its part made of it at collapse
            modules[number] = copy.deepcopy(trained)
    return assemble(predecessor, plan, modules)


def one_of(number: int, count: int) -> tuple[bool, ...]:
    """The mask in which only slot `number`, from 1, is replaced."""
    return tuple(index == number for index in range(1, count + 1))


def _chains_or_none(model: nn.Module) -> list[Chain]:
    try:
        return find_chains(model)
    except PlanError:
        return []
