"""The losses of distillation: logits (Hinton et al. 2015), patient layers (Sun et al. 2019), states and attention scores
(Jiao et al. 2020), relations of tokens (Wang et al. 2020).

Those over tokens are means over texts of the mean over a text's own tokens: padding does not count, and a step learns the same
however it is divided into batches.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn
from torch.nn import functional

from plankwise.data.masking import IGNORED
from plankwise.task_kinds import Loss
from plankwise.training.targets import Targets, logits_of

HIDDEN = -1e4  # a logit that leaves nothing to a token, and is still a number
Reduction = Literal["batchmean", "mean"]


def kd_loss(logits: torch.Tensor, target: torch.Tensor, T: float, reduction: Reduction = "batchmean") -> torch.Tensor:  # noqa: N803
    """T² · KL(softmax(target / T) || softmax(logits / T)); for a number, the squared difference.

    `batchmean` is the mean over examples; `mean`, as PKD's code has it, also divides by the number of classes.
    """
    if logits.shape[-1] == 1:
        return functional.mse_loss(logits, target)
    log_p, log_q = functional.log_softmax(target / T, -1), functional.log_softmax(logits / T, -1)
    divergence = functional.kl_div(log_q, log_p, reduction="batchmean", log_target=True)
    return T**2 * (divergence if reduction == "batchmean" else divergence / logits.shape[-1])


@dataclass(frozen=True)
class Kept:
    """What is kept of logits (N, C): all of them, or of each row the highest, as log-probabilities at a temperature."""

    values: torch.Tensor
    places: torch.Tensor | None  # (N, k) among the C; None: the values are logits, all of them


def keep_top(logits: torch.Tensor, count: int | None, T: float) -> Kept:  # noqa: N803
    """The highest logits of each row; all if `count` is None or there are no more."""
    if count is None or count >= logits.shape[-1]:
        return Kept(logits, None)
    values, places = functional.log_softmax(logits.float() / T, -1).topk(count)
    return Kept(values, places)


def top_loss(logits: torch.Tensor, target: Kept, T: float) -> torch.Tensor:  # noqa: N803
    """`kd_loss` by rows of (N, C); where only the highest were kept, all others are one answer together.

    That is never more than the divergence over all answers.
    """
    if target.places is None:
        return kd_loss(logits, target.values, T)
    log_p, log_q = target.values, functional.log_softmax(logits.float() / T, -1).gather(-1, target.places)
    rest_p, rest_q = ((1 - one.exp().sum(-1)).clamp_min(torch.finfo(one.dtype).eps) for one in (log_p, log_q))
    divergence = (log_p.exp() * (log_p - log_q)).sum(-1) + rest_p * (rest_p.log() - rest_q.log())
    return T**2 * divergence.mean()


def cosine_loss(states: torch.Tensor, targets: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """1 − the cosine of the angle between states (B, T, D), the mean over tokens that are not padding."""
    return _mean_by_text(1 - functional.cosine_similarity(states.float(), targets.float(), dim=-1), real)


def pt_loss(states: torch.Tensor, targets: torch.Tensor, *, normalise: bool) -> torch.Tensor:
    """The mean squared difference of states (examples, layers, width), each divided by its length first if `normalise`."""
    if normalise:
        states, targets = functional.normalize(states, dim=-1), functional.normalize(targets, dim=-1)
    return functional.mse_loss(states, targets)


def state_loss(states: torch.Tensor, targets: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """The mean squared difference of states (B, T, D); `real` (B, T): 1 for tokens that are not padding."""
    return _mean_by_text((states.float() - targets.float()).square(), real[..., None])


def normed_state_loss(states: torch.Tensor, targets: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """The same of states each of which has mean 0 and variance 1 over its width, as a LayerNorm without weights gives them."""
    own, wanted = (functional.layer_norm(one.float(), one.shape[-1:]) for one in (states, targets))
    return state_loss(own, wanted, real)


def moment_losses(states: torch.Tensor, targets: torch.Tensor, real: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """How far apart states (B, T, D) are in their mean over the width, squared, and in their variance, absolute."""
    (variance, mean), (wanted_variance, wanted) = (
        torch.var_mean(one.float(), -1, correction=0) for one in (states, targets)
    )
    return _mean_by_text((mean - wanted).square(), real), _mean_by_text((variance - wanted_variance).abs(), real)


def score_loss(scores: torch.Tensor, targets: torch.Tensor, seen: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """The mean squared difference of attention scores (B, heads, T, T) where a real token looks at a key that it may see.

    `seen` (B, 1, T, T): 1 for keys that a query may look at.
    """
    return _mean_by_text((scores - targets).square(), seen * real[:, None, :, None])


def relation_loss(scores: torch.Tensor, targets: torch.Tensor, seen: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """KL(softmax of targets || softmax of scores) over the keys that are seen: the mean over heads and real tokens."""
    hidden = seen == 0
    log_p, log_q = (one.masked_fill(hidden, torch.finfo(one.dtype).min).log_softmax(-1) for one in (targets, scores))
    divergence = (log_p.exp() * (log_p - log_q).masked_fill(hidden, 0.0)).sum(-1)
    return _mean_by_text(divergence, real[:, None, :])


def _mean_by_text(values: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """The mean over texts of each one's mean over what is counted, 1 or 0."""
    counted = counted.to(values.dtype).expand_as(values)
    return ((values * counted).flatten(1).sum(1) / counted.flatten(1).sum(1).clamp_min(1)).mean()


def task_loss(loss: Loss | None) -> Loss:
    """A task's loss; where it has none of its own, the model's."""
    return loss or (lambda model, inputs, rows: model(**inputs)["loss"])


def distilling(
    targets: Targets,
    alpha: float,
    T: float,  # noqa: N803
    reduction: Reduction = "batchmean",
    task: Loss | None = None,
) -> Loss:
    """(1 − alpha) · the task's loss + alpha · the distance from the predecessor's logits; without a `task` loss, the model's own.

    Of logits for each token (B, T, C), those of the tokens that have a label are compared; of spans (B, 2, T), which token is the
    first and which the last, among those that are not padding.
    """

    def loss(model: nn.Module, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        output: Any = model(**inputs)
        logits = logits_of(output)
        if logits is None:
            return output["loss"]  # a step that trains nothing
        target = targets.take("logits", rows, like=logits)
        if "start_positions" in inputs:
            padding = inputs["attention_mask"][:, None] == 0
            logits, target = (one.masked_fill(padding, HIDDEN).flatten(0, 1) for one in (logits, target))
        elif logits.dim() > 2:
            labelled = inputs["labels"] != IGNORED
            logits, target = logits[labelled], target[labelled]
        told = task_loss(task)(lambda **given: output, inputs, rows)  # type: ignore[arg-type]  # it ran already
        return (1 - alpha) * told + alpha * kd_loss(logits, target, T, reduction)

    return loss
