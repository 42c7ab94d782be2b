"""The head of a classifier, taken apart: what makes one vector of a text's states, and the linear map that answers from it.

A model with early exits has one more such linear map after each block; the vector is made by the model's own modules, shared by all
(Zhou et al. 2020, arXiv:2006.04152). Which form a head has is told by its modules, and seen to be right by trying.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from plankwise.core.slot import state_of
from plankwise.errors import PlanError

Pool = Callable[[torch.Tensor], torch.Tensor]  # states (B, T, D) to vectors (B, D)


def take_apart(model: Any) -> tuple[Pool, nn.Linear]:
    """What makes vectors of the last block's states, dropout included, and the linear map behind it.

    Raises:
        PlanError: the head has none of the forms that are known.
    """
    classifier: Any = getattr(model, "classifier", None)
    pooler = getattr(getattr(model, "base_model", None), "pooler", None)
    if isinstance(getattr(classifier, "out_proj", None), nn.Linear):  # RoBERTa, ELECTRA
        return _without_last(classifier), classifier.out_proj
    if isinstance(classifier, nn.Linear) and isinstance(getattr(model, "pre_classifier", None), nn.Linear):
        return lambda states: model.dropout(functional.relu(model.pre_classifier(states[:, 0]))), classifier
    if isinstance(classifier, nn.Linear) and pooler is not None and hasattr(model, "dropout"):  # BERT
        return lambda states: model.dropout(pooler(states)), classifier
    raise PlanError(
        f"{type(model).__name__} has a head whose form is not known here, so that no head can be put after each block; "
        "early exits are for classifiers like BERT, RoBERTa, DistilBERT and ELECTRA"
    )


def _without_last(head: nn.Module) -> nn.Module:
    """The same head, its modules too, but for the linear map at its end."""
    bare = copy.copy(head)
    bare._modules = {**head._modules, "out_proj": nn.Identity()}
    return bare


def check_head(model: Any, chain: nn.ModuleList) -> None:
    """Tries the model on made-up tokens: the head taken apart must answer from the last block's states what the model answers.

    Raises:
        PlanError: it does not, or the blocks are given a tensor that has neither a row for each text nor one for all.
    """
    device = next(model.parameters()).device
    if device.type == "meta":  # made to see whether it can be made: there are no values to compare
        return
    seen: dict[str, Any] = {}

    def look(module: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
        seen.update(state=state_of(output), beside=[*args, *kwargs.values()])

    batch, tokens = 3, 7
    ids = torch.arange(1, 1 + batch * tokens, device=device).view(batch, tokens) % model.config.vocab_size
    mask = torch.ones_like(ids)
    mask[0, 4:] = 0  # so that there is a mask to hand on
    handle, training = chain[-1].register_forward_hook(look, with_kwargs=True), model.training
    try:
        with torch.no_grad():
            answers = model.eval()(input_ids=ids, attention_mask=mask).logits
            pool, linear = take_apart(model)
            found = linear(pool(seen["state"]))
    finally:
        handle.remove()
        model.train(training)
    odd = [value.shape for value in tensors_in(seen["beside"]) if value.dim() == 0 or value.shape[0] not in (1, batch)]
    if odd or not torch.equal(found, answers):
        why = f"hands its blocks a tensor of shape {tuple(odd[0])}" if odd else "computes more between blocks and head"
        raise PlanError(
            f"{type(model).__name__} {why}, so that texts cannot leave it one by one; early exits are for classifiers like BERT, "
            "RoBERTa, DistilBERT and ELECTRA"
        )


def tensors_in(value: Any) -> list[torch.Tensor]:
    """All tensors in nested lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [tensor for one in inner for tensor in tensors_in(one)]
