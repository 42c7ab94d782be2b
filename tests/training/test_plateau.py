"""A schedule driven by the score, in a stage and in an unmodified Trainer: when it rises, and that a resume changes nothing."""

import copy
import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

import plankwise
from plankwise.config import FitOptions
from plankwise.core.hybrid import Rules
from plankwise.core.schedule import Plateau
from plankwise.errors import ConfigError
from plankwise.evaluation.predict import predict
from plankwise.runtimes.torch import TorchPredictor


class Watch(TrainerCallback):
    """Notes each step's rate and the last weights; dies where it is told to."""

    def __init__(self, ship, dies=None):
        self.ship = ship
        self.dies = dies
        self.by_step = {}

    @property
    def rates(self):
        return [rate for _, rate in sorted(self.by_step.items())]

    def on_step_begin(self, args, state, control, **kwargs):
        self.by_step[state.global_step] = self.ship.rate
        self._maybe_die("step", state.global_step)

    def on_evaluate(self, args, state, control, **kwargs):
        self._maybe_die("evaluate", state.global_step)

    def on_train_end(self, args, state, control, **kwargs):
        self.end = copy.deepcopy(self.ship.state_dict())

    def _maybe_die(self, *moment):
        if moment == self.dies:
            raise KeyboardInterrupt


class Scripted:
    """Gives scores in their order, the last one for ever, and notes how the hybrid was run for each."""

    def __init__(self, *scores):
        self.scores = itertools.chain(scores, itertools.repeat(scores[-1]))
        self.samples = []

    def __call__(self, model):
        assert not model.training
        self.samples.append(model._hybrid_state.sample)
        return {"score": next(self.scores)}


def run(texts, model, schedule, hybrid_score, *, stage_score=None, dies=None, rules=None, **options):
    """Trains 20 steps, with an evaluation after every other one."""
    ship = plankwise.hybrid(model, successors=2, schedule=schedule, seed=3, unfreeze="head", rules=rules)
    watch = Watch(ship, dies)
    fit = FitOptions(**{"max_steps": 20, "batch_size": 8, "learning_rate": 1e-2, "evaluate_every": 2, **options})
    stage = texts.make_stage("plateau", fit)
    stage = replace(stage, score=stage_score or stage.score)
    result = stage.run(ship, [ship.callback(hybrid_score), watch], settled=lambda: ship.settled)
    return SimpleNamespace(ship=ship, watch=watch, result=result)


def test_the_rate_rises_when_the_hybrids_score_stalls_and_not_while_it_improves(texts, bert):
    score = Scripted(0.1, 0.2, 0.3, 0.3, 0.1, 0.2, 0.1)
    done = run(texts, bert, Plateau(start=0.25, rise=0.375, latest=0.9), score)
    assert done.watch.rates == [0.25] * 8 + [0.625] * 6 + [1.0] * 6
    assert done.ship.schedule.rises == (8, 14)
    assert [sample.rate for sample in score.samples] == [0.25] * 4 + [0.625] * 3  # at rate 1 nothing is scored
    assert done.ship.settled


def test_patience_is_counted_in_evaluations(texts, bert):
    done = run(texts, bert, Plateau(start=0.25, rise=0.75, patience=3, latest=0.9), Scripted(0.3, 0.2, 0.1, 0.0))
    assert done.watch.rates == [0.25] * 8 + [1.0] * 12


def test_a_hybrid_that_goes_on_improving_is_settled_at_the_latest_share_all_the_same(texts, bert):
    score = Scripted(*range(100))
    done = run(texts, bert, Plateau(start=0.25, latest=0.8), score)
    assert done.watch.rates == [0.25] * 16 + [1.0] * 4
    assert done.ship.schedule.rises == ()
    assert len(score.samples) == 7  # not after step 16, when the rate is 1 anyway


def test_the_log_history_holds_each_score_and_the_rate_of_each_log(texts, bert):
    history = run(texts, bert, Plateau(0.25, 0.75, latest=0.9), Scripted(0.5, 0.5)).result.history
    scored = [entry for entry in history if "hybrid_score" in entry]
    assert scored == [{"hybrid_score": 0.5, "replacing_rate": 0.25, "step": step} for step in (2, 4)]
    rates = [entry["replacing_rate"] for entry in history if "loss" in entry]
    assert rates == [0.25] * 4 + [1.0] * 16


@pytest.mark.parametrize(("scores", "steps"), [((0.5, 0.5), 8), ((0.1, 0.2, 0.3, 0.3), 12)])
def test_early_stopping_counts_from_the_rise_to_one_so_the_scores_decide_the_length(texts, bert, scores, steps):
    falling = itertools.count(0, -1)
    done = run(
        texts,
        bert,
        Plateau(start=0.5, rise=0.5, latest=1.0),
        Scripted(*scores),
        stage_score=lambda model: {"score": next(falling)},
        early_stopping=2,
    )
    assert done.result.steps == steps


def test_seconds_of_scoring_are_no_training_time(texts, bert, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    clock.monotonic = lambda: clock.now
    for module in ("ship", "stage", "callbacks"):
        monkeypatch.setattr(f"plankwise.training.{module}.time", clock)

    def score(model):
        clock.now += 100 if model._hybrid_state.sample else 10
        return {"score": 1.0}

    done = run(texts, bert, Plateau(latest=0.9), score, stage_score=score)
    assert clock.now == 8 * 100 + 10 * 10
    assert done.result.seconds == 0.0


def test_a_blended_hybrid_is_scored_blended(texts, bert):
    score = Scripted(0.5, 0.5)
    done = run(texts, bert, Plateau(0.25, 0.75, latest=0.9), score, rules=Rules(blend=True))
    assert done.watch.rates == [0.25] * 4 + [1.0] * 16
    assert [(sample.rate, sample.coins) for sample in score.samples] == [(0.25, None)] * 2


TENDENCY = (0.5, 0.6, 0.4, 0.5, 0.1, 0.0, 0.05, 0.3, 0.2, 0.4)


def real_score(texts):
    """Goes up and down by the steps done, and a little by the weights: 6 forward passes, in a hybrid each with its own mask."""
    labels = torch.tensor(texts.train.dataset["labels"])

    def score(model):
        logits = torch.from_numpy(predict(TorchPredictor(model), texts.train, texts.tokenizer, batch_size=4))
        loss = torch.nn.functional.cross_entropy(logits, labels).item()
        return {"score": TENDENCY[model._hybrid_state.step // 2] + loss / 1000}

    return score


@pytest.mark.parametrize(
    ("save_every", "moments"),
    [
        (2, [("evaluate", 6), ("step", 6), ("evaluate", 8), ("step", 8), ("step", 17)]),  # before and after saving
        (3, [("step", 5), ("step", 10), ("evaluate", 14)]),  # evaluations are done again
    ],
)
def test_a_stage_killed_at_any_moment_has_the_same_rises_and_the_very_weights(texts, bert, save_every, moments):
    score = real_score(texts)
    schedule = Plateau(start=0.4, rise=0.2, patience=2, latest=0.95)

    def train(dies=None):
        model = copy.deepcopy(bert)
        return run(texts, model, schedule, score, stage_score=score, dies=dies, save_every=save_every)

    whole = train()
    assert whole.ship.schedule.rises == (8, 14)
    texts.forget()
    for moment in moments:
        with pytest.raises(KeyboardInterrupt):
            train(moment)
    again = train()
    assert min(again.watch.by_step) == {2: 16, 3: 12}[save_every]
    assert again.ship.schedule == whole.ship.schedule
    assert all(torch.equal(value, again.watch.end[name]) for name, value in whole.watch.end.items())
    assert all(torch.equal(value, again.ship.state_dict()[name]) for name, value in whole.ship.state_dict().items())
    scores = [[e for e in done.result.history if "hybrid_score" in e] for done in (whole, again)]
    assert scores[0] == scores[1]


def test_a_finished_stage_gives_its_rises_back_from_its_history(texts, bert):
    schedule = Plateau(start=0.0, rise=0.75, latest=0.9)
    first = run(texts, copy.deepcopy(bert), schedule, Scripted(0.5, 0.5))
    skipped = first.ship.count_skipped(20)
    second = run(texts, bert, schedule, lambda model: pytest.fail("scored again"))
    assert not second.watch.by_step
    second.ship.recall(second.result.history)
    second.ship.begin(second.result.max_steps)
    assert second.ship.schedule == first.ship.schedule != schedule
    assert second.ship.count_skipped(20) == skipped >= 4


def train_own(ship, folder, sentences, callback, resume=None, **changes):
    """An unmodified Trainer that evaluates every other step."""
    defaults = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "max_steps": 12,
        "learning_rate": 1e-2,
        "report_to": "none",
        "save_strategy": "no",
        "eval_strategy": "steps",
        "eval_steps": 2,
        "disable_tqdm": True,
    }
    watch = Watch(ship)
    trainer = Trainer(
        model=ship,
        args=TrainingArguments(**{**defaults, **changes}),
        train_dataset=sentences,
        eval_dataset={"one": sentences, "two": sentences},
        callbacks=[callback, watch],
    )
    trainer.train(resume_from_checkpoint=resume)
    return watch


def test_an_unmodified_trainer_raises_the_rate_once_an_evaluation_and_resumes_with_its_rises(bert, sentences, tmp_path):
    schedule = Plateau(start=0.25, rise=0.375, latest=1.0)
    ship = plankwise.hybrid(copy.deepcopy(bert), successors=2, schedule=schedule)
    saving = {"save_strategy": "steps", "save_steps": 5}
    whole = train_own(ship, tmp_path, sentences, ship.callback(score=Scripted(3, 3, 2, 2, 1)), **saving)
    assert whole.rates == [0.25] * 4 + [0.625] * 4 + [1.0] * 4
    twin = plankwise.hybrid(bert, successors=2, schedule=schedule)
    resumed = train_own(
        twin, tmp_path / "again", sentences, twin.callback(score=Scripted(2, 2, 1)), str(tmp_path / "checkpoint-5")
    )
    assert resumed.rates == whole.rates[5:]
    assert all(torch.equal(value, resumed.end[name]) for name, value in whole.end.items())


def test_training_anew_starts_at_the_first_rate_again(bert, sentences, tmp_path):
    ship = plankwise.hybrid(bert, successors=2, schedule=Plateau(start=0.25, rise=0.75, latest=1.0))
    for _ in range(2):
        watch = train_own(ship, tmp_path, sentences, ship.callback(score=Scripted(0.5)), max_steps=6)
        assert watch.rates == [0.25] * 4 + [1.0] * 2


def test_a_plateau_without_a_way_to_score_is_refused_when_training_begins(bert, sentences, tmp_path):
    ship = plankwise.hybrid(bert, successors=2, schedule=Plateau())
    with pytest.raises(ConfigError, match=r"the schedule is a plateau.*ship.callback\(score=\.\.\.\)"):
        train_own(ship, tmp_path, sentences, ship.callback())


def test_a_score_function_without_a_score_is_refused(bert, sentences, tmp_path):
    ship = plankwise.hybrid(bert, successors=2, schedule=Plateau())
    with pytest.raises(ConfigError, match=r"gave \{'accuracy': 0.5\}; let it give the key 'score'"):
        train_own(ship, tmp_path, sentences, ship.callback(score=lambda model: {"accuracy": 0.5}))
