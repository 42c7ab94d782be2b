"""A stage: best weights, early stopping, NaN, exact resume; on a tiny BERT and a plain Encoded set."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from datasets import Dataset
from rich.console import Console
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer, TrainerCallback

import plankwise
from plankwise.config import FitOptions
from plankwise.data.encode import Encoded
from plankwise.errors import RunError
from plankwise.training.stage import Stage


def make_stage(folder: Path, score=None, **options) -> Stage:
    vocabulary = folder.parent / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(45))]))
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(3, 9, (48,), generator=generator).tolist()
    rows = [torch.randint(5, 50, (length,), generator=generator).tolist() for length in lengths]
    labels = [row[0] % 2 for row in rows]
    table = pa.table({"input_ids": rows, "attention_mask": [[1] * n for n in lengths], "labels": labels})
    scores = iter(range(1, 1000))
    return Stage(
        name="stage",
        train=Encoded(Dataset(table), lengths, 0),
        score=score or (lambda model: {"score": float(next(scores))}),
        tokenizer=BertTokenizer(vocab=str(vocabulary)),
        options=FitOptions(**{"epochs": 3, "batch_size": 8, "learning_rate": 1e-2, **options}),
        folder=folder,
        seed=3,
        console=Console(quiet=True),
    )


def make_bert() -> BertForSequenceClassification:
    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=32)
    )


def test_the_best_weights_on_dev_are_put_back(tmp_path):
    seen = []

    def score(model):
        assert not model.training
        seen.append({name: value.clone() for name, value in model.state_dict().items()})
        return {"score": {1: 0.5, 2: 0.9, 3: 0.7}[len(seen)]}

    model = make_bert()
    result = make_stage(tmp_path / "s", score).run(model)
    assert (result.best_score, result.best_step, result.steps) == (0.9, 12, 18)
    assert 0 < result.seconds_to_best < result.seconds
    assert all(torch.equal(value, seen[1][name]) for name, value in model.state_dict().items())


def test_the_last_step_is_scored_even_between_evaluations(tmp_path):
    result = make_stage(tmp_path / "s", evaluate_every=5, max_steps=7).run(make_bert())
    assert [entry["step"] for entry in result.history if "eval_score" in entry] == [5, 7]
    assert result.best_step == 7


def test_early_stopping_waits_for_patience_and_until_the_rate_is_one(tmp_path):
    falling = iter(range(100, 0, -1))
    stage = make_stage(tmp_path / "s", lambda model: {"score": next(falling)}, early_stopping=2, evaluate_every=2)
    assert stage.run(make_bert()).steps == 6
    falling = iter(range(100, 0, -1))
    stage = make_stage(tmp_path / "t", lambda model: {"score": next(falling)}, early_stopping=2, evaluate_every=2)
    ship = plankwise.hybrid(make_bert(), successors=2, schedule=plankwise.Linear(0.3, 0.5))
    result = stage.run(ship, [ship.callback()], settled=lambda: ship.settled)
    assert result.steps == 12  # full at 9 of 18: scored at 10 and 12


def test_a_stage_killed_after_it_stopped_early_stops_again_at_the_same_step(tmp_path, monkeypatch):
    def scores():
        falling = iter(range(100, 0, -1))
        return lambda model: {"score": next(falling)}

    options = {"early_stopping": 2, "evaluate_every": 3, "save_every": 1}
    with monkeypatch.context() as patch:
        patch.setattr("plankwise.training.stage.write_text", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            make_stage(tmp_path / "s", scores(), **options).run(make_bert())
    tail = iter([98])  # the score at the stop, seen again
    result = make_stage(tmp_path / "s", lambda model: {"score": next(tail)}, **options).run(make_bert())
    assert (result.steps, result.best_step) == (9, 3)


def test_trackers_see_the_rate(tmp_path):
    stage = make_stage(tmp_path / "s", max_steps=2, report_to=["tensorboard"])
    seen = []

    class Tracker(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            seen.append(dict(logs))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transformers.trainer.get_reporting_integration_callbacks", lambda names: [Tracker])
        ship = plankwise.hybrid(make_bert(), successors=2)
        stage.run(ship, [ship.callback()])
    assert [logs["replacing_rate"] for logs in seen if "loss" in logs] == [0.3, 1.0]


def test_a_finished_stage_is_not_trained_again(tmp_path):
    first, second = make_bert(), make_bert()
    result = make_stage(tmp_path / "s").run(first)
    assert make_stage(tmp_path / "s", lambda model: pytest.fail("scored again")).run(second) == result
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not list((tmp_path / "s").glob("checkpoint-*"))


def test_no_pickle_is_written_for_resuming(tmp_path):
    def score(model):
        return {"score": 0.0}

    stage = make_stage(tmp_path / "s", score, learning_rate=1e20, save_every=1, clip_norm=0)
    with pytest.raises(RunError):
        stage.run(make_bert())
    names = {path.name for path in (tmp_path / "s").rglob("*") if path.is_file()}
    assert names <= {
        "weights.safetensors",
        "optimiser.safetensors",
        "state.json",
        "trainer_state.json",
        "best.safetensors",
    }


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_checkpoint(tmp_path):
    stage = make_stage(tmp_path / "s", save_every=2)
    model = make_bert()
    forward, calls = model.forward, []

    def poisoned(*args, labels=None, input_ids=None, attention_mask=None, **kwargs):
        output = forward(*args, labels=labels, input_ids=input_ids, attention_mask=attention_mask, **kwargs)
        calls.append(1)
        if len(calls) == 5:
            output["loss"] = output["loss"] * float("nan")
        return output

    model.forward = poisoned
    with pytest.raises(
        RunError, match=r"the loss turned nan at step 4; the last good checkpoint is .*checkpoint-4.*learning_rate"
    ):
        stage.run(model)
    from safetensors.torch import load_file

    kept = load_file(tmp_path / "s" / "checkpoint-4" / "weights.safetensors")
    assert all(torch.isfinite(value).all() for value in kept.values())


def test_a_damaged_checkpoint_is_named(tmp_path):
    folder = tmp_path / "s" / "checkpoint-4"
    folder.mkdir(parents=True)
    (folder / "weights.safetensors").write_bytes(b"junk")
    (folder / "trainer_state.json").write_text(json.dumps({"stateful_callbacks": {"BestKeeper": {"attributes": {}}}}))
    with pytest.raises(RunError, match=r"weights.safetensors cannot be read.*delete the folder"):
        make_stage(tmp_path / "s").run(make_bert())


WORKER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import plankwise
from safetensors.torch import save_file
from test_stage import make_bert, make_stage

slow = float(sys.argv[3])
def score(model):
    time.sleep(slow)
    return {"score": float(model.bert.encoder.layer[0].successor.output.dense.weight.detach().double().sum())}

folder = Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
ship = plankwise.hybrid(make_bert(), successors=2, schedule=plankwise.Linear(0.2, 0.6), seed=3, unfreeze="head")
stage = make_stage(folder / "stage", score, evaluate_every=4, save_every=3)
result = stage.run(ship, [ship.callback()], settled=lambda: ship.settled)
save_file({name: value.clone() for name, value in ship.state_dict().items()}, folder / "end.safetensors")
"""


def test_a_stage_killed_at_any_moment_resumes_to_the_very_weights(tmp_path, request):
    from safetensors.torch import load_file

    def start(name, slow):
        command = [sys.executable, "-c", WORKER, str(request.path.parent), str(tmp_path / name), str(slow)]
        return subprocess.Popen(command, env={**os.environ, "HF_HUB_OFFLINE": "1"}, stdout=subprocess.DEVNULL)

    whole = start("whole", 0)
    kills = 0
    for mark in ("checkpoint-3", "checkpoint-9", "checkpoint-15"):
        worker = start("killed", 0.5)
        while worker.poll() is None and not (tmp_path / "killed" / "stage" / mark).exists():
            time.sleep(0.01)
        if worker.poll() is None:
            worker.send_signal(signal.SIGKILL)
            kills += 1
        worker.wait()
    assert kills == 3
    assert start("killed", 0).wait() == 0
    assert whole.wait() == 0
    ends = [load_file(tmp_path / name / "end.safetensors") for name in ("whole", "killed")]
    assert all(torch.equal(value, ends[1][name]) for name, value in ends[0].items())
    results = [json.loads((tmp_path / name / "stage" / "result.json").read_text()) for name in ("whole", "killed")]
    assert results[0]["best_step"] == results[1]["best_step"]
    losses = [[entry["loss"] for entry in result["history"] if "loss" in entry][-3:] for result in results]
    assert losses[0] == losses[1]


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def test_the_last_block_runs_for_the_first_token_alone_and_learns_the_same(tmp_path):
    widths = {}

    def train(name, **more):
        model = without_dropout(make_bert())
        last = model.bert.encoder.layer[-1]
        seen = widths.setdefault(name, set())
        last.register_forward_hook(lambda module, given, state: seen.add(state.shape[1]))
        make_stage(tmp_path / name, max_steps=5, learning_rate=1e-3).run(model, **more)
        return model.state_dict()

    narrow, whole = train("narrow"), train("whole", states=True)
    assert widths["narrow"] == {1}
    assert min(widths["whole"]) > 1
    assert all(torch.allclose(value, whole[name], atol=1e-5) for name, value in narrow.items())


def test_dropout_is_drawn_fast_while_a_stage_runs_and_by_torch_afterwards(tmp_path, monkeypatch):
    from plankwise.training import dropout

    drawn = []
    draw = dropout.draw_coins
    monkeypatch.setattr(dropout, "draw_coins", lambda *args, **kwargs: (drawn.append(1), draw(*args, **kwargs))[1])
    make_stage(tmp_path / "s", max_steps=2).run(make_bert())
    assert drawn
    count = len(drawn)
    torch.nn.functional.dropout(torch.ones(10))
    assert len(drawn) == count
