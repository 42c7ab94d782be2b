"""The three lines in two processes give the successor that one process gives with the same global batch."""

import socket
import subprocess
import sys

import pytest
import torch

import plankwise
from plankwise.core.schedule import draw_mask

STEPS = 8
SEED = 4
SCHEDULES = {
    "skipping": plankwise.Linear(start=0.1, full_at=0.75),
    "the readme's": plankwise.Linear(start=0.3, full_at=0.5),
    "full": plankwise.Constant(rate=1.0),
}
CASES = [(name, accumulation) for name in SCHEDULES for accumulation in (1, 2)]
TRAIN = f"""
import os, sys, torch
sys.path.insert(0, sys.argv[2])
from conftest import Sentences
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
import plankwise
from plankwise import Constant, Linear

num_processes = int(os.environ.get("WORLD_SIZE", "1"))
trained = {{}}
for name, schedule in {SCHEDULES}.items():
    for accumulation in (1, 2):
        torch.manual_seed(0)
        config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=32,
                            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        model = BertForSequenceClassification(config).double()  # Adam makes much of float32's rounding
        ship = plankwise.hybrid(model, successors=2, schedule=schedule, seed={SEED})
        args = TrainingArguments(
            output_dir=sys.argv[1], per_device_train_batch_size=4 // num_processes, max_steps={STEPS}, learning_rate=1e-2,
            gradient_accumulation_steps=accumulation, weight_decay=0.1, use_cpu=True, report_to="none", save_strategy="no",
            disable_tqdm=True, ddp_find_unused_parameters=True,
            # Else the Trainer multiplies the loss by the number of processes, which this model's mean does not ask for.
            average_tokens_across_devices=False)
        Trainer(model=ship, args=args, train_dataset=Sentences(), callbacks=[ship.callback()]).train()
        trained[name, accumulation] = {{key: value.detach() for key, value in ship.named_parameters()}}
torch.save(trained, f"{{sys.argv[1]}}/{{num_processes}}-{{os.environ.get('RANK', '0')}}.pt")
"""


@pytest.fixture(scope="module")
def weights(tmp_path_factory, request):
    """The trained weights, by number of processes and rank."""
    folder = tmp_path_factory.mktemp("processes")
    script = folder / "train.py"
    script.write_text(TRAIN)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    two = ["-m", "torch.distributed.run", "--nproc_per_node=2", "--master_addr=127.0.0.1", f"--master_port={port}"]
    for launcher in ([], two):
        command = [sys.executable, *launcher, str(script), str(folder), str(request.path.parent)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr[-4000:]
    return {name: torch.load(folder / f"{name}.pt") for name in ("1-0", "2-0", "2-1")}


@pytest.mark.parametrize(("name", "accumulation"), CASES)
def test_two_processes_train_what_one_process_trains(weights, name, accumulation):
    one, first, second = (weights[key][name, accumulation] for key in ("1-0", "2-0", "2-1"))
    assert one.keys() == first.keys()
    for key, value in one.items():
        assert torch.equal(first[key], second[key]), key
        torch.testing.assert_close(first[key], value, rtol=0, atol=1e-9, msg=key)


def test_two_of_the_three_schedules_skip_steps():
    skipped = {
        name: sum(not any(draw_mask(SEED, step, rate(step, STEPS), 2)) for step in range(STEPS))
        for name, rate in SCHEDULES.items()
    }
    assert skipped["skipping"] == 4
    assert skipped["full"] == 0 < skipped["the readme's"]
