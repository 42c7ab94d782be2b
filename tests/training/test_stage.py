"""A stage: best weights, early stopping, NaN, exact resume; on a tiny BERT and a plain Encoded set."""

import json

import pytest
import torch
from transformers import TrainerCallback

import plankwise
from plankwise.errors import RunError
from stages import make_bert, make_stage
from workers import kill_when, start, train_stage, wait


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


def test_the_whole_of_dev_chooses_and_each_half_judges_what_the_other_would_have_chosen(tmp_path):
    halves = iter([(0.5, 0.25), (0.75, 0.5), (0.25, 0.875)])

    def score(model):
        first, second = next(halves)
        return {"score": (first + second) / 2, "score_half_1": first, "score_half_2": second}

    result = make_stage(tmp_path / "s", score).run(make_bert())
    assert (result.best_score, result.best_step) == (0.625, 12)
    assert result.held_back == {"score": (0.5 + 0.25) / 2, "chosen_among": 3}
    assert [entry["eval_score_half_2"] for entry in result.history if "eval_score" in entry] == [0.25, 0.5, 0.875]


def test_a_stage_with_one_evaluation_or_without_halves_has_nothing_held_back(tmp_path):
    one = {"score": 0.5, "score_half_1": 0.5, "score_half_2": 0.5}
    assert make_stage(tmp_path / "s", lambda model: one, max_steps=2).run(make_bert()).held_back is None
    assert make_stage(tmp_path / "t").run(make_bert()).held_back is None


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
        "checksums.json",
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


def test_a_stage_killed_at_any_moment_resumes_to_the_very_weights(tmp_path):
    from safetensors.torch import load_file

    whole = start(train_stage, str(tmp_path / "whole"), 0.0)
    kills = 0
    for mark in ("checkpoint-3", "checkpoint-9", "checkpoint-15"):
        worker = start(train_stage, str(tmp_path / "killed"), 0.5)
        kills += kill_when(worker, (tmp_path / "killed" / "stage" / mark).exists)
    assert kills == 3
    assert wait(start(train_stage, str(tmp_path / "killed"), 0.0)) == 0
    assert wait(whole) == 0
    ends = [load_file(tmp_path / name / "end.safetensors") for name in ("whole", "killed")]
    assert all(torch.equal(value, ends[1][name]) for name, value in ends[0].items())
    results = [json.loads((tmp_path / name / "stage" / "result.json").read_text()) for name in ("whole", "killed")]
    assert results[0]["best_step"] == results[1]["best_step"]
    assert results[0]["held_back"]["chosen_among"] == 5
    assert results[0]["held_back"] == results[1]["held_back"]
    losses = [[(entry["step"], entry["loss"]) for entry in result["history"] if "loss" in entry] for result in results]
    assert len(losses[0]) == 18
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

        def look(module, given, state):
            if module.training:
                seen.add(state.shape[1])

        last.register_forward_hook(look)
        make_stage(tmp_path / name, max_steps=5, learning_rate=1e-3).run(model, **more)
        return model.state_dict()

    narrow, whole = train("narrow", reads_first_token=True), train("whole")
    assert widths["narrow"] == {1}
    assert min(widths["whole"]) > 1
    assert all(torch.allclose(value, whole[name], atol=1e-5) for name, value in narrow.items())


@pytest.mark.parametrize("switch", [True, False])
def test_dropout_is_drawn_fast_while_a_stage_runs_if_it_is_asked_for(tmp_path, switch):
    model, kinds = make_bert(), set()
    model.dropout.register_forward_hook(lambda module, given, state: kinds.add(type(module).__name__))
    make_stage(tmp_path / "s", lambda model: {"score": 1.0}, max_steps=1, fast_dropout=switch).run(model)
    assert kinds == ({"FastDropout"} if switch else {"Dropout"})
    assert type(model.dropout).__name__ == "Dropout"


def test_a_score_that_is_not_a_number_is_said_at_once(tmp_path):
    with pytest.raises(RunError, match=r"the score on dev is not a number at step 6; lower training.learning_rate"):
        make_stage(tmp_path / "s", lambda model: {"score": float("nan")}).run(make_bert())


@pytest.mark.parametrize(("batch_size", "accumulation"), [(8, 3), (8, 2), (7, 4)])
def test_a_step_trains_on_as_many_examples_as_were_asked_for_in_however_many_parts(tmp_path, batch_size, accumulation):
    seen = []
    stage = make_stage(tmp_path / "s", batch_size=batch_size, accumulation=accumulation, max_steps=2)

    def loss(model, inputs, rows):
        seen.append(len(rows))
        return model(**inputs).loss

    stage.run(make_bert(), loss=loss)
    assert sum(seen) == 2 * batch_size


def test_parts_of_a_step_learn_what_the_whole_step_learns(tmp_path):
    ends = []
    for accumulation in (1, 3):
        model = without_dropout(make_bert())
        folder = tmp_path / str(accumulation)
        make_stage(folder, accumulation=accumulation, max_steps=5, learning_rate=1e-3).run(model)
        ends.append(model.state_dict())
    assert all(torch.allclose(value, ends[1][name], atol=1e-6) for name, value in ends[0].items())


def test_modules_of_a_methods_own_are_trained_beside_the_model_and_resumed_but_are_not_part_of_it(tmp_path):
    def run(folder, max_steps=6, **options):
        torch.manual_seed(1)
        model, own = without_dropout(make_bert()), torch.nn.Linear(2, 2)
        before = own.weight.detach().clone()

        def loss(model, inputs, rows):
            return torch.nn.functional.cross_entropy(own(model(**inputs).logits), inputs["labels"])

        stage = make_stage(folder, lambda model: {"score": 1.0}, max_steps=max_steps, save_every=2, **options)
        result = stage.run(model, loss=loss, modules={"map": own})
        assert not torch.equal(own.weight, before)
        return result, own.state_dict()

    result, whole = run(tmp_path / "whole")
    assert result.steps == 6
    from safetensors.torch import load_file

    best = load_file(tmp_path / "whole" / "best.safetensors")
    assert not [name for name in best if name.startswith("map")]
    assert whole.keys() == {"weight", "bias"}


def test_half_precision_works_on_the_cpu_and_leaves_the_model_as_it_was(tmp_path):
    model = make_bert()
    before = set(vars(model))
    result = make_stage(tmp_path / "s", max_steps=2, precision="bfloat16").run(model)
    assert result.steps == 2
    assert set(vars(model)) == before
    assert model(torch.tensor([[5, 6]])).logits.dtype == torch.float32


@pytest.mark.parametrize(("precision", "asked"), [("float32", True), ("bfloat16", False)])
def test_products_of_float32_alone_are_changed(tmp_path, monkeypatch, precision, asked):
    switches = []
    monkeypatch.setattr("plankwise.training.stage.fast_products", lambda switch, device: switches.append(switch))
    make_stage(tmp_path / "s", lambda model: {"score": 1.0}, fast_products=True, precision=precision).products()
    assert switches == [asked]
