"""A sweep: trials of one recipe from one predecessor, each an ordinary run, taken by any number of workers.

FOLDER/sweep.db          trials and claims, unless another database is given
FOLDER/predecessor-run/  the predecessor, if it has to be trained
FOLDER/trials/0007/      a trial: the folder of a run
FOLDER/table.json        what came of all, and report.html
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from plankwise.config import RunConfig, validate_config
from plankwise.context import count_processes
from plankwise.errors import ConfigError, PlanError, PlankwiseError, RunError
from plankwise.files import write_text
from plankwise.record import FILE
from plankwise.report.page import TABLE
from plankwise.run.compress import compress
from plankwise.run.dividing import Claim, ClaimLostError, Division, open_engine
from plankwise.run.folders import FolderTakenError
from plankwise.run.inputs import Inputs, check_plan
from plankwise.run.sharing import make_predecessor, open_inputs
from plankwise.sweep.scores import choosing_score, tell_choice
from plankwise.sweep.space import Space, config_of, list_points, read_space, with_keys
from plankwise.sweep.tables import tabulate
from plankwise.training.interruption import InterruptedRunError, interruptible

if TYPE_CHECKING:
    from plankwise.sweep.trials import Trials

COUNT = "trials"  # what the number of trials is noted as
DATABASE, PREDECESSOR_RUN, TRIALS = "sweep.db", "predecessor-run", "trials"
FEW = 20  # trials, if nothing is said
PARTS = 1000  # of a stage's steps, by which trials of different lengths compare
OWN = {"truncated": False, "latency": False, "estimate": False}  # of [evaluation]: what a trial need not tell


class _PrunedTrial(Exception):  # noqa: N818
    """A trial that is worse than others were at its point."""


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    recipe: Mapping[str, Any]  # as `config.load_data` gives it
    space: list[str]
    folder: Path
    console: Console
    trials: int | None = None
    sampler: str | None = None
    storage: str | None = None
    prune: bool = False
    command: list[str] = field(default_factory=list)  # that a trial's keys are added to: plankwise compress RECIPE …

    @property
    def url(self) -> str:
        return self.storage or f"sqlite:///{self.folder / DATABASE}"


def run_sweep(request: Request) -> dict[str, Any]:
    """Runs every trial that no worker has run yet, and gives the table of all; goes on where an earlier call was stopped.

    Raises:
        PlankwiseError: anything that the user can fix. Bad input is found before anything is trained.
        InterruptedRunError: it was told to stop.
    """
    return _Sweep(request).run()


def read_status(request: Request) -> dict[str, Any]:
    """The table of what there is by now; nothing is trained, and nothing written.

    Raises:
        RunError: there is no such sweep.
    """
    if request.storage is None and not (request.folder / DATABASE).is_file():
        raise RunError(f"{request.folder} holds no sweep; give the --folder of one, or start it without --status")
    return _Sweep(request).status()


class _Sweep:
    def __init__(self, request: Request) -> None:
        if count_processes() > 1:
            raise ConfigError(
                "a sweep's trials run in one process each; start the same command several times instead of by torchrun"
            )
        self.request, self.folder, self.console = request, request.folder, request.console
        self.base = self._config("base", PREDECESSOR_RUN, {})
        noted = self._read_noted()
        self.space: Space = read_space(request.space or noted.get("space", []), request.recipe)
        self.sampler: str = request.sampler or noted.get("sampler", "tpe")
        points = list_points(self.space) if self.sampler == "grid" else []
        wanted = noted.get(COUNT, len(points) or FEW) if request.trials is None else request.trials
        if wanted < 1:
            raise ConfigError(f"--trials is {wanted}; give 1 or more")
        self.points, self.count = points, min(wanted, len(points)) if points else wanted
        self.predecessor = ""

    def run(self) -> dict[str, Any]:
        self._check_length()
        inputs = open_inputs(self.base, self.console)
        self._check_plans(inputs)
        self.folder.mkdir(parents=True, exist_ok=True)
        with interruptible():
            trials, division = self._open()
            trials.lay_out(self.count)
            trials.study.set_user_attr(COUNT, self.count)
            self._make_predecessor(inputs, division)
            names = [f"{number:04}" for number in range(self.count)]
            division.do(names, lambda claim: self._try(claim, trials), self._say)
        table = self._tabulate(trials, division)
        write_text(self.folder / TABLE, json.dumps(table, indent=2))
        return table

    def status(self) -> dict[str, Any]:
        return self._tabulate(*self._open())

    def _check_length(self) -> None:
        if not self.folder.name.strip(".") or len(self.folder.name) > 150:
            raise ConfigError(
                f"--folder is {self.folder}, whose last part names the sweep; give one of 1 to 150 letters"
            )

    def _read_noted(self) -> dict[str, Any]:
        """What the sweep is about, if it was begun before."""
        if self.request.storage is None and not (self.folder / DATABASE).is_file():
            return {}
        open_engine(self.request.url, "--storage").dispose()
        from plankwise.sweep.trials import read_noted

        return read_noted(self.request.url, self.folder.name)

    def _open(self) -> tuple[Trials, Division]:
        engine = open_engine(self.request.url, "--storage")
        from plankwise.sweep.trials import NumberedSampler, Trials

        sampler = NumberedSampler(self.sampler, self.base.run.seed, self.points)
        trials = Trials(self.request.url, self.folder.name, self.space, sampler)
        recipe = self.base.model_dump(mode="json", exclude={"run": {"folder"}, "analysis": True})
        trials.agree(
            {"space": [str(one) for one in self.space], "sampler": self.sampler, **_flat(recipe)}, str(self.folder)
        )
        return trials, Division(engine, self.folder.name)

    def _check_plans(self, inputs: Inputs) -> None:
        """Tries the plans that the space has on the predecessor as it was given."""
        model = inputs.predecessor.model
        assert model is not None
        for one in self.space:
            if one.key.startswith("plan."):
                for text in one.checked:
                    try:
                        check_plan(config_of(self.request.recipe, self.space, {one.key: text}), model)
                    except (ConfigError, PlanError) as error:
                        raise type(error)(f"--space {one.key}={text}: {error}") from None

    def _make_predecessor(self, inputs: Inputs, division: Division) -> None:
        """One worker trains the predecessor, if it has to be; the others wait for it."""
        made = self.folder / PREDECESSOR_RUN / "predecessor"
        needed = inputs.predecessor.needs_training
        self.predecessor = str(made) if needed else self.base.predecessor.path

        def make(claim: Claim) -> None:
            if not made.is_dir():
                make_predecessor(inputs)

        if needed:
            division.do(["predecessor"], make, self._say)
            if not made.is_dir():
                raise RunError(
                    f"{made} is not there, though another worker has trained it; let all workers see one --folder"
                )
        inputs.predecessor.model = None

    def _config(self, name: str, place: str, values: Mapping[str, str]) -> RunConfig:
        """The config of a run of this sweep."""
        data = with_keys(self.request.recipe, values) if values else copy.deepcopy(dict(self.request.recipe))
        plain = validate_config(data)
        data["run"] = {
            **data.get("run", {}), "name": f"{plain.run.name[:150]}-{name}", "folder": str(self.folder / place)
        }  # fmt: skip
        data["evaluation"] = {**data.get("evaluation", {}), **OWN}
        if values:
            finetune = "auto" if plain.predecessor.finetune is True else plain.predecessor.finetune
            data["predecessor"] = {**data.get("predecessor", {}), "path": self.predecessor, "finetune": finetune}
        return validate_config(data)

    def _try(self, claim: Claim, trials: Trials) -> None:
        trial = trials.take(int(claim.item))
        if trial is None:  # whoever ran it died just before saying so
            return
        values = trials.draw(trial)
        number, folder = trial.number, self.folder / TRIALS / claim.item
        self._say(f"trial {number} of {self.count}: {' '.join(f'{key}={text}' for key, text in values.items())}")
        known, stages = set(trials.all()[number].intermediate_values), list[str]()

        def watch(stage: str, step: int, max_steps: int, metrics: dict[str, float]) -> None:
            claim.check()
            if stage not in stages:
                stages.append(stage)
            at = stages.index(stage) * PARTS + round(PARTS * step / max_steps)
            if at in known:
                return
            known.add(at)
            trial.report(choosing_score(metrics, self.base), at)
            if self.request.prune and trial.should_prune():
                raise _PrunedTrial(f"pruned at step {step} of {max_steps} of {stage}")

        try:
            config = self._config(claim.item, f"{TRIALS}/{claim.item}", values)
            record = compress(config, self.console, watch)
        except _PrunedTrial as why:
            trials.prune(number)
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
            self._say(f"trial {number}: {why}")
        except (InterruptedRunError, ClaimLostError):
            raise
        except FolderTakenError as error:
            raise ClaimLostError(str(error)) from None
        except PlankwiseError as error:
            trials.fail(trial, " ".join(str(error).split()))
            self._say(f"trial {number} failed: {error}")
        else:
            claim.check()
            score = tell_choice(record).chosen
            trials.finish(number, score)
            self._say(f"trial {number}: {score:.4f}")

    def _tabulate(self, trials: Trials, division: Division) -> dict[str, Any]:
        def record_of(number: int) -> Path:
            return self.folder / TRIALS / f"{number:04}" / FILE

        about = {
            "name": self.folder.name,
            "sampler": self.sampler,
            "choose_on": self.base.evaluation.choose_on,
            "space": [
                {"key": one.key, "values": list(one.values), "log": one.log, "told": str(one)} for one in self.space
            ],
        }
        return tabulate(trials, self.count, record_of, division.holders(), about, self.request.command)

    def _say(self, line: str) -> None:
        self.console.print(f"sweep: {line}", soft_wrap=True)


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested data by key, as `key=value` has it."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found
