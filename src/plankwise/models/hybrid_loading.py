"""The successor that a hybrid's checkpoint holds; see `hybrids` for what such a checkpoint says."""

import json
import re
from typing import Any

import torch
from safetensors.torch import load_file
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME, cached_file

from plankwise.core.plan import Plan
from plankwise.errors import ConfigError, PlanError
from plankwise.models.loading import class_of, resolve
from plankwise.models.planned_config import unpack
from plankwise.models.plans import assemble, take_out
from plankwise.models.quiet import quiet
from plankwise.models.saving import find_tokenizer, save_beside
from plankwise.parts import OWN, rebuild_successors


def successor_of(path: str, config_dict: dict[str, Any], *, remote_code: bool = False) -> Any:
    """The successor, as training has made it so far, in eval mode; it is saved with the checkpoint's tokenizer, if there is one.

    Raises:
        PlanError: a slot holds a module of the user's own.
        ConfigError: weights are missing, or the family's class is not there.
    """
    config, slots = unpack(config_dict)
    plan = Plan.from_json(slots)
    for slot in plan.slots:
        if slot.part == OWN:
            raise PlanError(
                f"{path} is a hybrid's checkpoint whose slot {slot} holds a module of your own, which cannot be built from "
                "config.json; make the hybrid as you did, load model.safetensors into it with safetensors.torch.load_model, "
                "and collapse it"
            )
    kind = class_of(config, config.architectures[0], path)
    with quiet(), torch.random.fork_rng():
        options = {"trust_remote_code": remote_code} if hasattr(kind, "_model_mapping") else {}
        model = (kind.from_config if options else kind._from_config)(config, **options)
    modules = {slot: model.get_submodule(slot.places[0]) for slot in plan.slots}
    built = rebuild_successors(plan, modules, config)
    hybrid = assemble(model, plan, [built[slot] for slot in plan.slots])
    _fill(hybrid, _read_weights(resolve(path)), path)
    successor: Any = take_out(hybrid)
    return save_beside(successor, find_tokenizer(path))


def _read_weights(path: str) -> dict[str, torch.Tensor]:
    """The weights of a local folder or hub name, in one file or several."""
    index = cached_file(path, SAFE_WEIGHTS_INDEX_NAME, _raise_exceptions_for_missing_entries=False)
    if index is None:
        return load_file(str(cached_file(path, SAFE_WEIGHTS_NAME)))
    with open(index, encoding="utf-8") as file:
        names = sorted(set(json.load(file)["weight_map"].values()))
    return {key: value for name in names for key, value in load_file(str(cached_file(path, name))).items()}


def _fill(hybrid: Any, weights: dict[str, torch.Tensor], path: str) -> None:
    missing, unexpected = hybrid.load_state_dict(weights, strict=False)
    parameters = dict(hybrid.named_parameters(remove_duplicate=False))
    filled = {id(parameters[name]) for name in weights if name in parameters}
    computed = [*(hybrid._keys_to_ignore_on_save or ()), *(hybrid._keys_to_ignore_on_load_missing or ())]
    random = [
        name
        for name in missing
        if id(parameters.get(name)) not in filled  # what is shared is saved once
        and not any(re.search(pattern, name) for pattern in computed)
    ]
    if random or unexpected:
        raise ConfigError(
            f"{path} does not hold the weights of the hybrid that its config.json describes ({len(random)} are missing, "
            f"{len(unexpected)} have no place, for example {[*random, *unexpected][0]}); give a folder that was written whole"
        )
