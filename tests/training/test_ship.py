"""Three lines in a training script: an unmodified Trainer."""

import json
import socket
import subprocess
import sys

import pytest
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

import plankwise
from plankwise.core.hybrid import Rules
from plankwise.core.schedule import draw_mask
from plankwise.errors import ConfigError, PlanError


class Watch(TrainerCallback):
    """Notes what the hybrid does in each step."""

    def __init__(self, ship):
        self.ship = ship
        self.masks, self.moved, self.calls = [], [], 0
        for slot in ship.plan.slots:
            ship.get_submodule(slot.places[0]).register_forward_hook(self.count)

    def count(self, *args):
        self.calls += 1

    def on_step_begin(self, args, state, control, **kwargs):
        self.before = {name: value.detach().clone() for name, value in self.ship.named_parameters()}

    def on_step_end(self, args, state, control, **kwargs):
        self.masks.append(self.ship.mask)
        values = dict(self.ship.named_parameters())
        self.moved.append({name for name, value in self.before.items() if not torch.equal(value, values[name])})


def arguments(folder, **changes):
    defaults = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "max_steps": 12,
        "learning_rate": 1e-2,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_steps": 1,
    }
    return TrainingArguments(**{**defaults, **changes})


def train(ship, folder, sentences, resume=None, callbacks=(), **changes):
    trainer = Trainer(
        model=ship,
        args=arguments(folder, **changes),
        train_dataset=sentences,
        callbacks=[ship.callback(), *callbacks],
    )
    trainer.train(resume_from_checkpoint=resume)
    return trainer


LOW = plankwise.Linear(start=0.1, full_at=0.75)


def test_an_unmodified_trainer_trains_drawn_successors_only_and_passes_over_steps_that_replace_nothing(
    bert, sentences, tmp_path
):
    ship = plankwise.hybrid(bert, successors=2, schedule=LOW, seed=1)
    watch = Watch(ship)
    trainer = train(ship, tmp_path, sentences, callbacks=[watch])
    expected = [draw_mask(1, step, LOW(step, 12), 2) for step in range(12)]
    assert watch.masks == expected
    empty = expected.count((False, False))
    assert 0 < empty < 12
    assert ship.count_skipped(12) == empty
    for mask, moved in zip(expected, watch.moved, strict=True):
        for index, replaced in enumerate(mask):
            path = f"{ship.plan.slots[index].places[0]}.successor."
            assert any(name.startswith(path) for name in moved) == replaced
        assert all(".successor." in name for name in moved)
    assert all(entry["loss"] > 0 for entry in trainer.state.log_history if "loss" in entry)
    first_forward = 1 if expected[0] == (False, False) else 0  # to have a loss to report
    assert watch.calls == 2 * (12 - empty + first_forward)


def test_rate_and_expected_learning_rate_are_logged(bert, sentences, tmp_path):
    ship = plankwise.hybrid(bert, successors=2, schedule=LOW)
    trainer = train(ship, tmp_path, sentences)
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(logs) == 12
    for entry in logs:
        rate = LOW(entry["step"] - 1, 12)
        assert entry["replacing_rate"] == rate
        assert entry["expected_learning_rate"] == rate * entry["learning_rate"]


def test_masks_are_drawn_once_per_optimiser_step_under_gradient_accumulation(bert, sentences, tmp_path):
    ship = plankwise.hybrid(bert, successors=2, schedule=LOW, seed=1)
    drawn = []
    set_step = ship.set_step
    ship.set_step = lambda step: (drawn.append(step), set_step(step))
    watch = Watch(ship)
    train(ship, tmp_path, sentences, callbacks=[watch], gradient_accumulation_steps=3, per_device_train_batch_size=2)
    assert drawn == list(range(12)) or drawn == [0, *range(12)]
    assert watch.masks == [draw_mask(1, step, LOW(step, 12), 2) for step in range(12)]


def test_the_trainers_own_checkpoints_resume_to_the_very_weights(bert, sentences, tmp_path):
    import copy

    twin = copy.deepcopy(bert)
    whole = plankwise.hybrid(bert, successors=2, schedule=LOW)
    train(whole, tmp_path / "whole", sentences, save_strategy="steps", save_steps=5)
    resumed = plankwise.hybrid(twin, successors=2, schedule=LOW)
    train(resumed, tmp_path / "again", sentences, resume=str(tmp_path / "whole" / "checkpoint-5"))
    for name, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value), name


def test_label_smoothing_works_although_the_loss_is_computed_outside_the_model(bert, sentences, tmp_path):
    ship = plankwise.hybrid(bert, successors=2, schedule=LOW, seed=1)
    watch = Watch(ship)
    train(ship, tmp_path, sentences, callbacks=[watch], label_smoothing_factor=0.1)
    assert [bool(moved) for moved in watch.moved] == [any(mask) for mask in watch.masks]


def test_idle_momentum_moves_successors_that_were_drawn_before(bert, sentences, tmp_path):
    schedule = plankwise.Steps(at=(0.0,), rates=(0.5,))
    ship = plankwise.hybrid(bert, successors=2, schedule=schedule, seed=3, rules=Rules(idle_momentum=True))
    watch = Watch(ship)
    train(ship, tmp_path, sentences, callbacks=[watch])
    drawn_before = [False, False]
    idle_steps = 0
    for mask, moved in zip(watch.masks, watch.moved, strict=True):
        for index, replaced in enumerate(mask):
            idle_steps += drawn_before[index] and not replaced
            drawn_before[index] |= replaced
            path = f"{ship.plan.slots[index].places[0]}.successor."
            assert any(name.startswith(path) for name in moved) == drawn_before[index]
    assert idle_steps > 0


def test_gradients_of_frozen_weights_count_when_clipping_only_if_asked(bert, sentences, tmp_path):
    import copy

    twin = copy.deepcopy(bert)
    always = plankwise.Constant(rate=1.0)
    norms = []
    for model, frozen in ((bert, False), (twin, True)):
        rules = Rules(frozen_gradients=frozen)
        ship = plankwise.hybrid(model, successors=2, schedule=always, rules=rules)
        trainer = train(ship, tmp_path, sentences, max_steps=1)
        norms.append(next(entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry))
        assert all(p is not ship.classifier.weight for group in trainer.optimizer.param_groups for p in group["params"])
    assert norms[1] > norms[0]


def test_the_head_is_trained_in_the_second_phase_if_asked(bert, sentences, tmp_path):
    ship = plankwise.hybrid(bert, successors=2, schedule=plankwise.Linear(0.9, 0.5), unfreeze="head")
    watch = Watch(ship)
    train(ship, tmp_path, sentences, callbacks=[watch])
    assert ["classifier.weight" in moved for moved in watch.moved] == [False] * 6 + [True] * 6
    assert not any("embeddings" in name for moved in watch.moved for name in moved)


def test_a_trained_ship_can_be_collapsed_after_mixed_precision_wrapped_its_forward(bert, sentences, tmp_path):
    ship = plankwise.hybrid(bert, successors=2, schedule=plankwise.Constant(rate=1.0))
    train(ship, tmp_path, sentences, max_steps=2, bf16=True, use_cpu=True)
    successor = ship.collapse()
    batch = sentences[0]["input_ids"][None]
    assert "forward" not in vars(successor)
    with torch.no_grad():
        assert successor(input_ids=batch).logits.dtype == torch.float32
        successor(input_ids=batch)


def test_two_ways_to_say_the_plan_are_refused(bert):
    with pytest.raises(ConfigError, match="give one of them"):
        plankwise.hybrid(bert, successors=2, spans=[[0, 1]])


def test_a_pattern_for_one_module_of_ones_own_is_refused_with_the_paths_that_it_stands_for(bert):
    with pytest.raises(PlanError) as caught:
        plankwise.hybrid(bert, slots={"bert.encoder.layer.*.attention": torch.nn.Identity()})
    paths = ", ".join(f"bert.encoder.layer.{index}.attention" for index in range(4))
    assert str(caught.value) == (
        f"slots: 'bert.encoder.layer.*.attention' is a pattern, which stands for 4 modules ({paths}), and a module can "
        "stand in one place only; give one entry for each path, each with a module of its own"
    )


RANK = """
import json, os, sys, torch
sys.path.insert(0, sys.argv[2])
from conftest import Sentences
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments
import plankwise

class Masks(TrainerCallback):
    seen = []
    def on_step_end(self, args, state, control, **kwargs):
        self.seen.append(ship.mask)

torch.manual_seed(0)
config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=32)
ship = plankwise.hybrid(
    BertForSequenceClassification(config), successors=2, schedule=plankwise.Linear(start=0.1, full_at=0.75), seed=1
)
args = TrainingArguments(output_dir=sys.argv[1], per_device_train_batch_size=2, max_steps=8, learning_rate=1e-2, use_cpu=True,
                         report_to="none", save_strategy="no", disable_tqdm=True, ddp_find_unused_parameters=True,
                         gradient_accumulation_steps=2)
masks = Masks()
Trainer(model=ship, args=args, train_dataset=Sentences(), callbacks=[ship.callback(), masks]).train()
sums = {name: value.double().sum().item() for name, value in ship.successor_parameters().items()}
json.dump({"masks": masks.seen, "sums": sums}, open(f"{sys.argv[1]}/rank{os.environ['RANK']}.json", "w"))
torch.distributed.destroy_process_group()  # or gloo's threads may abort the process while the interpreter is torn down
"""


def test_two_processes_draw_the_same_masks_and_end_with_the_same_weights(tmp_path, request):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--master_addr=127.0.0.1"]
    command += [f"--master_port={port}", str(script), str(tmp_path), str(request.path.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    one, two = (json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in (0, 1))
    assert one["masks"] == two["masks"] == [list(draw_mask(1, step, LOW(step, 8), 2)) for step in range(8)]
    assert one["sums"] == two["sums"]
    assert [False, False] in one["masks"]
