"""Skipped steps under a gradient scaler: with float16 every step must report to the scaler, and a skipped one has no gradient.

accelerate offers float16 on a GPU alone, so these tests switch it on in the Trainer's accelerator. That shows the Trainer's calls,
the scaler's state and real overflow in float16 on a CPU; it cannot show a GPU's kernels or checks on several devices.
"""

import copy
import itertools

import pytest
import torch
from accelerate.state import AcceleratorState
from transformers import Trainer, TrainerCallback, TrainingArguments

import plankwise
from plankwise.core.hybrid import Rules
from plankwise.core.schedule import draw_mask

STEPS, SEED = 12, 4
LOW = plankwise.Linear(start=0.1, full_at=0.75)
MASKS = [draw_mask(SEED, step, LOW(step, STEPS), 2) for step in range(STEPS)]
SKIPPED = [not any(mask) for mask in MASKS]


class Watch(TrainerCallback):
    """What each step left: weights, the optimiser's state, the scaler's, and the learning rate."""

    def __init__(self, ship):
        self.ship = ship
        self.seen = []

    def on_train_begin(self, args, state, control, **kwargs):
        self._note(**kwargs)

    def on_step_end(self, args, state, control, **kwargs):
        self._note(**kwargs)

    def _note(self, optimizer, lr_scheduler, **kwargs):
        scaler = optimizer.scaler
        self.seen.append(
            copy.deepcopy(
                {
                    "weights": [p.detach() for p in self.ship.parameters()],
                    "moments": [value for state in optimizer.state.values() for value in state.values()],
                    "scaler": None if scaler is None or scaler._scale is None else scaler.state_dict(),
                    "rate": lr_scheduler.last_epoch,
                }
            )
        )


def train(model, sentences, folder, monkeypatch, *, scaler, rules=None, **changes):
    ship = plankwise.hybrid(model, successors=2, schedule=LOW, seed=SEED, rules=rules)
    watch = Watch(ship)
    args = TrainingArguments(
        output_dir=str(folder), max_steps=STEPS, learning_rate=1e-2, per_device_train_batch_size=4, weight_decay=0.1,
        report_to="none", save_strategy="no", disable_tqdm=True, use_cpu=True, **changes,
    )  # fmt: skip
    trainer = Trainer(model=ship, args=args, train_dataset=sentences, callbacks=[ship.callback(), watch])
    if scaler is not None:
        trainer.accelerator.scaler, trainer.accelerator.native_amp = scaler, True
        monkeypatch.setitem(AcceleratorState._shared_state, "_mixed_precision", "fp16")
    trainer.train()
    return ship, watch.seen


def same(before, after):
    return len(before) == len(after) and all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_schedule_skips_steps_before_and_after_the_first_that_trains():
    first = SKIPPED.index(False)
    assert first > 0
    assert any(SKIPPED[first:])


@pytest.mark.parametrize("optim", ["adamw_torch", "adamw_torch_fused"])
@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("overflows", [False, True])
def test_a_skipped_step_leaves_weights_optimiser_and_scaler_as_they_were(
    bert, sentences, tmp_path, monkeypatch, optim, accumulation, overflows
):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40 if overflows else 2.0**4, growth_interval=2)
    changes = {"optim": optim, "gradient_accumulation_steps": accumulation}
    _, seen = train(bert, sentences, tmp_path, monkeypatch, scaler=scaler, **changes)
    for skipped, before, after in zip(SKIPPED, seen, seen[1:], strict=False):
        if skipped:
            assert same(before["weights"], after["weights"])
            assert same(before["moments"], after["moments"])
            assert before["scaler"] in (None, after["scaler"])
        if skipped or not overflows:
            assert after["rate"] == before["rate"] + 1
        assert same(before["weights"], after["weights"]) == (skipped or overflows)
    scale = seen[-1]["scaler"]["scale"]  # steps that train change it as ever
    num_trained = SKIPPED.count(False)
    assert scale == (2.0 ** (40 - num_trained) if overflows else 2.0 ** (4 + num_trained // 2))


def test_momentum_of_undrawn_successors_still_moves_them_under_a_scaler(bert, sentences, tmp_path, monkeypatch):
    scaler = torch.amp.GradScaler("cpu")
    rules = Rules(idle_momentum=True)
    _, seen = train(bert, sentences, tmp_path, monkeypatch, scaler=scaler, rules=rules)
    first = SKIPPED.index(False)
    moved = [not same(before["weights"], after["weights"]) for before, after in itertools.pairwise(seen)]
    assert moved == [False] * first + [True] * (STEPS - first)


def test_a_loop_of_ones_own_can_leave_out_the_steps_that_train_nothing(bert, sentences):
    ship = plankwise.hybrid(bert, successors=2, schedule=LOW, seed=SEED)
    optimiser = torch.optim.AdamW([p for p in ship.parameters() if p.requires_grad])
    scaler = torch.amp.GradScaler("cpu")
    ship.begin(STEPS)
    ship.train()
    left_out = []
    for step in range(STEPS):
        ship.set_step(step)
        left_out.append(ship.trains_nothing)
        if ship.trains_nothing:
            continue
        batch = {name: value[None] for name, value in sentences[step].items()}
        scaler.scale(ship(**batch).loss).backward()
        scaler.step(optimiser)
        scaler.update()
        optimiser.zero_grad()
    assert left_out == SKIPPED
    assert sum(left_out) == ship.count_skipped(STEPS)
