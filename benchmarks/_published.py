"""Module replacing as its published code does it, for BERT, written anew for the benchmarks.

Every text is padded to the full length, all weights get gradients whether they are trained or not, the whole model is in training
mode, attention is computed step by step, and a step whose mask is empty runs like any other.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from plankwise.core.schedule import Schedule, draw_mask


class Either(nn.Module):
    """Some trained layers, or the one that replaces them."""

    def __init__(self, span: Sequence[nn.Module], successor: nn.Module) -> None:
        super().__init__()
        self.span = nn.ModuleList(span)
        self.successor = successor
        self.replaced = False

    def forward(self, state: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        for layer in [self.successor] if self.replaced else self.span:
            state = layer(state, *args, **kwargs)
        return state


class Published:
    """A training run, step by step, with the masks that plankwise draws for the same seed and schedule."""

    def __init__(
        self,
        model: nn.Module,  # given away
        tokenizer: Any,
        dataset: Any,
        *,
        schedule: Schedule,
        num_steps: int,
        batch_size: int,
        learning_rate: float,
        max_length: int,
        seed: int,
    ) -> None:
        self.model, self.tokenizer, self.dataset = model, tokenizer, dataset
        self.schedule, self.num_steps, self.seed = schedule, num_steps, seed
        self.batch_size, self.max_length = batch_size, max_length
        model.set_attn_implementation("eager")  # type: ignore[operator]
        layers = model.bert.encoder.layer  # type: ignore[union-attr]
        halves = range(0, len(layers), 2)  # type: ignore[arg-type]
        self.modules = [Either(layers[at : at + 2], copy.deepcopy(layers[at])) for at in halves]  # type: ignore[index]
        model.bert.encoder.layer = nn.ModuleList(self.modules)  # type: ignore[union-attr]
        trained = [parameter for module in self.modules for parameter in module.successor.parameters()]
        self.optimiser = torch.optim.AdamW(trained, lr=learning_rate, weight_decay=0.0)
        self.falling = torch.optim.lr_scheduler.LambdaLR(self.optimiser, lambda step: 1 - step / num_steps)
        self.rows = self._rows()

    def _rows(self) -> torch.Tensor:
        chance = torch.Generator().manual_seed(self.seed)
        passes = -(-self.num_steps * self.batch_size // len(self.dataset))
        return torch.cat([torch.randperm(len(self.dataset), generator=chance) for _ in range(passes)])

    def take(self, step: int) -> None:
        """One step of training."""
        mask = draw_mask(self.seed, step, self.schedule(step, self.num_steps), len(self.modules))
        for module, replaced in zip(self.modules, mask, strict=True):
            module.replaced = replaced
        start = step * self.batch_size
        inputs = self._batch(self.rows[start : start + self.batch_size].tolist())
        self.model.train()
        self.model(**inputs).loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.falling.step()
        self.model.zero_grad(
            set_to_none=False
        )  # as torch did it then: successors that are not drawn keep a gradient of zero

    def successor(self) -> nn.Module:
        """The trained model with the successors alone."""
        for module in self.modules:
            module.replaced = True
        return self.model.eval()

    def _batch(self, rows: list[int]) -> dict[str, torch.Tensor]:
        columns = dict(self.dataset[rows])
        labels = torch.as_tensor(columns.pop("labels"))
        padded = self.tokenizer.pad(columns, padding="max_length", max_length=self.max_length, return_tensors="pt")
        return {**padded, "labels": labels}
