"""What a part is given to choose by, before its successor is solved: runs of a block on texts, and what the answers depend on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from plankwise import parts
from plankwise.solving.bench import Batches, Bench, Inputs, mask_name
from plankwise.solving.effect import sum_signed
from plankwise.solving.importance import find_importance
from plankwise.solving.tokens import Places

FEWER = (
    4  # times fewer batches tell what answers depend on: heads are few, and each batch runs the whole model and back
)


@dataclass(frozen=True)
class Choosing:
    """Lets the part of a slot choose, by one batch in `every`, what its successors keep of the predecessor's blocks."""

    bench: Bench
    number: int
    batches: Batches
    places: Places
    every: int

    def choose(self, successor: nn.Module, *, upper: bool) -> dict[str, torch.Tensor]:
        """What a part's `choose` gives for a successor whose weights are from the span's last block, or else from its first."""
        bench, slot = self.bench, self.bench.slots[self.number]
        donor: nn.Module = bench.last(self.number) if upper else bench.place(self.number).block
        mask = mask_name(bench.hybrid, slot.path)

        def runs() -> Iterator[torch.Tensor | None]:
            for index, inputs in self._some():
                bench.find_slot_given(self.number, inputs, index).run(donor)
                yield self.places.weigh(inputs.get(mask))

        def importance(counts: dict[str, int]) -> dict[str, torch.Tensor]:
            with bench.hybrid.masked(False):
                batches = (inputs for _, inputs in self._some(FEWER))
                return find_importance(bench.hybrid, donor, counts, batches, sum_signed, mask=mask)

        return parts.choose(slot, successor, donor, runs, importance)

    def _some(self, times: int = 1) -> Iterator[tuple[int, Inputs]]:
        every = times * self.every
        return ((index, inputs) for index, inputs in enumerate(self.batches()) if index % every == 0)
