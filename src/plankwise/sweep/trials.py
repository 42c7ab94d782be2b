"""The trials of a sweep as Optuna keeps them: what each draws depends on its number, on the seed, and for tpe on finished ones.

Trials are laid out beforehand, all waiting; whoever has claimed number 7 (`run.dividing`) runs trial 7. A trial whose worker was
killed keeps the values that it drew.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from plankwise.errors import MissingExtraError, RunError
from plankwise.run.dividing import engine_options, patiently
from plankwise.sweep.space import Dimension, Space

try:
    import optuna
    from optuna.distributions import BaseDistribution, IntDistribution
    from optuna.trial import FrozenTrial, TrialState
except ImportError:
    raise MissingExtraError("a sweep", "optuna", "sweep") from None

optuna.logging.set_verbosity(optuna.logging.WARNING)

ABOUT, FAILURE = "plankwise", "failure"  # attributes of a study and of a trial
STATES = {
    TrialState.WAITING: "waiting",
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "finished",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


class NumberedSampler(optuna.samplers.BaseSampler):
    """Draws by the trial's number, so that no two workers draw the same, and a sweep that was stopped goes on as it would have."""

    def __init__(self, kind: str, seed: int, points: Sequence[Mapping[str, str]] = ()) -> None:
        self.kind, self.seed, self.points = kind, seed, points
        self._own: optuna.samplers.BaseSampler = optuna.samplers.RandomSampler()

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        seed = int(np.random.default_rng([self.seed, trial.number]).integers(2**32))
        self._own = (
            _quietly(lambda: optuna.samplers.TPESampler(seed=seed, constant_liar=True))
            if self.kind == "tpe"
            else optuna.samplers.RandomSampler(seed=seed)
        )

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return {}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        if self.kind == "grid":
            text = self.points[trial.number][param_name]
            return int(text) if isinstance(param_distribution, IntDistribution) else text
        return self._own.sample_independent(study, trial, param_name, param_distribution)


def read_noted(url: str, name: str) -> dict[str, Any]:
    """What a sweep that was begun is about; empty if there is none of the name."""
    storage = patiently(lambda: optuna.storages.RDBStorage(url, engine_kwargs=engine_options(url)))
    try:
        attributes = storage.get_study_user_attrs(storage.get_study_id_from_name(name))
    except KeyError:
        return {}
    return {**attributes.get(ABOUT, {}), **{key: value for key, value in attributes.items() if key != ABOUT}}


class Trials:
    """The trials of one sweep in a database."""

    def __init__(self, url: str, name: str, space: Space, sampler: NumberedSampler) -> None:
        self.space = space
        self.storage = patiently(lambda: optuna.storages.RDBStorage(url, engine_kwargs=engine_options(url)))
        self.study = patiently(
            lambda: optuna.create_study(
                storage=self.storage,
                study_name=name,
                sampler=sampler,
                pruner=optuna.pruners.MedianPruner(n_startup_trials=4),
                direction="maximize",
                load_if_exists=True,
            )
        )

    def agree(self, about: Mapping[str, Any], place: str) -> None:
        """Notes what the sweep is about, or looks whether it is what was noted.

        Raises:
            RunError: it is another one.
        """
        noted = self.study.user_attrs.get(ABOUT)
        if noted is None:
            self.study.set_user_attr(ABOUT, dict(about))
            return
        for key, value in about.items():
            if noted.get(key) != value:
                raise RunError(
                    f"{place} holds another sweep ({key} is {noted.get(key)} there, {value} here); choose another --folder"
                )

    def lay_out(self, count: int) -> None:
        """Sees to it that there are so many trials; several workers that do so at once leave a few more, which nobody runs."""
        study = self.storage.get_study_id_from_name(self.study.study_name)
        waiting = optuna.trial.create_trial(state=TrialState.WAITING)
        for _ in range(len(self.all()), count):
            self.storage.create_new_trial(study, waiting)

    def all(self) -> list[FrozenTrial]:
        return sorted(self.study.get_trials(deepcopy=False), key=lambda trial: trial.number)

    def take(self, number: int) -> optuna.Trial | None:
        """The trial, running; None if it has ended already."""
        study = self.storage.get_study_id_from_name(self.study.study_name)
        trial = self.storage.get_trial_id_from_study_id_trial_number(study, number)
        state = self.storage.get_trial(trial).state
        if state.is_finished():
            return None
        if state == TrialState.WAITING:
            self.storage.set_trial_state_values(trial, TrialState.RUNNING)
        # A new object, for one that is used for several trials goes on to draw by those that it knew at the first.
        fresh = optuna.load_study(
            study_name=self.study.study_name, storage=self.storage, sampler=self.study.sampler, pruner=self.study.pruner
        )
        fresh.get_trials(deepcopy=False)  # the storage's cache has to know a trial before it is written to
        return optuna.Trial(fresh, trial)

    def draw(self, trial: optuna.Trial) -> dict[str, str]:
        """The value of each key, as a recipe writes it; those that the trial has drawn before stay."""
        return {one.key: one.write(_suggest(trial, one)) for one in self.space}

    def finish(self, number: int, score: float) -> None:
        self.study.tell(number, score)

    def prune(self, number: int) -> None:
        self.study.tell(number, state=TrialState.PRUNED)

    def fail(self, trial: optuna.Trial, why: str) -> None:
        trial.set_user_attr(FAILURE, why)
        self.study.tell(trial.number, state=TrialState.FAIL)

    def values_of(self, trial: FrozenTrial) -> dict[str, str]:
        return {one.key: one.write(trial.params[one.key]) for one in self.space if one.key in trial.params}


def _quietly(make: Callable[[], Any]) -> Any:
    """What `make` gives, without a word on options that Optuna may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return make()


def _suggest(trial: optuna.Trial, one: Dimension) -> Any:
    if one.values:
        return trial.suggest_categorical(one.key, one.values)
    if one.whole:
        return trial.suggest_int(one.key, int(one.low), int(one.high), log=one.log)
    return trial.suggest_float(one.key, one.low, one.high, log=one.log)
