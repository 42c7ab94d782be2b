"""RunConfig: what a run is asked to do. Strict, every default visible, `key=value` overrides.

The key path is the same in TOML, on the command line and in errors: `method.schedule.start`. The sections `task` and
`method` are described by the kind that they name (`tasks/glue.py`, `methods/replacing.py`), so a new kind needs no edit here.
"""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import tomli_w
from pydantic import Field, ValidationInfo, field_serializer, field_validator, model_validator

from plankwise.analysis_options import AnalysisOptions
from plankwise.efforts import HOURS, Effort, lay_under, read_duration, unless_shaped
from plankwise.errors import ConfigError
from plankwise.kinds import list_kinds, load_kind, no_such
from plankwise.options import Options, validate
from plankwise.plan_options import PlanOptions
from plankwise.toml import apply_override, read_toml, without_none

Tracker = Literal[
    "tensorboard", "mlflow", "wandb", "trackio", "comet_ml", "clearml", "neptune", "codecarbon", "dvclive", "swanlab",
    "azure_ml", "dagshub", "flyte", "kubeflow",
]  # fmt: skip

Guard = Literal["majority", "label_order"]

Unfreeze = Literal["nothing", "head", "embeddings", "all"]  # what is trained beside successors once the rate is 1

DEFAULT_KINDS = {
    "task": "reviews",
    "method": "replacing",
}  # what the sections of a kind's own are about if they do not say


SEEDS = 2**32  # what random generators take
MOST_STEPS = 10**9  # more than anyone has time for


class RunOptions(Options):
    name: str = Field(
        "run", pattern=r"^[\w.-]*[\w-][\w.-]*$", max_length=200, description="the run's name: letters, digits, . _ -"
    )
    folder: str = Field("", description="where the run is written; runs/NAME when empty")
    seed: int = Field(0, ge=0, lt=SEEDS, description="seeds data order, the dev split, dropout and the masks")
    data_seed: int | None = Field(
        None, ge=0, lt=SEEDS, description="seeds the dev split and subsets alone; run.seed if absent"
    )
    effort: Effort | None = Field(
        None,
        description="sets other keys together: seconds (solved, not trained), minutes (solved, then a short training), hours "
        "(a search of plan, method and learning rate, several seeds)",
    )
    within: str | None = Field(
        None,
        description="how long the run may take, for example 20min; says how many steps there are, and the effort if absent",
    )

    patience: str = Field(
        "30min",
        description="how long each of several processes waits for the others in a step of training; the run ends if one hangs",
    )

    @field_validator("within", "patience")
    @classmethod
    def _is_a_time(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None:
            read_duration(value, f"run.{info.field_name}")
        return value

    @model_validator(mode="before")
    @classmethod
    def _name_the_folder(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("folder"):
            return data
        return {**data, "folder": f"runs/{data.get('name', 'run')}"}

    @property
    def patience_seconds(self) -> float:
        return read_duration(self.patience, "run.patience")

    @property
    def seed_of_data(self) -> int:
        """What decides which examples there are; two runs with the same one have the same."""
        return self.seed if self.data_seed is None else self.data_seed


class FitOptions(Options):
    epochs: float = Field(3.0, gt=0, le=MOST_STEPS, description="passes over the training examples")
    max_steps: int | None = Field(None, ge=1, le=MOST_STEPS, description="optimiser steps; overrides epochs")
    batch_size: int = Field(32, ge=1, description="examples per optimiser step and process")
    accumulation: int = Field(1, ge=1, description="micro-batches that make one batch")
    learning_rate: float = Field(5e-5, gt=0, description="peak learning rate of AdamW")
    lr_schedule: Literal["linear", "constant", "cosine"] = Field("linear", description="decay after the warm-up")
    warmup_share: float = Field(0.0, ge=0, lt=1, description="share of the steps in which the learning rate rises")
    weight_decay: float = Field(0.0, ge=0, description="AdamW's weight decay")
    clip_norm: float = Field(1.0, ge=0, description="gradient norm above which gradients are scaled down; 0 for never")
    evaluate_every: int | None = Field(
        None, ge=1, description="steps between evaluations on dev; once an epoch if absent"
    )
    early_stopping: int | None = Field(
        None, ge=1, description="evaluations without a better score after which training stops; never if absent"
    )
    save_every: int | None = Field(
        None, ge=1, description="steps between checkpoints for resuming; at each evaluation if absent"
    )
    precision: Literal["float32", "bfloat16", "float16"] = Field("float32", description="of the forward pass")
    fast_dropout: Literal["auto"] | bool = Field(
        "auto",
        description="draw dropout masks on the CPU four bits of chance at a time; auto: where torch draws one by one",
    )
    fast_products: Literal["auto"] | bool = Field(
        "auto",
        description="compute float32 products on the CPU by oneDNN; auto: where that is as exact as MKL, and faster",
    )
    report_to: list[Tracker] = Field([], description="trackers, as in transformers: tensorboard, mlflow, wandb, …")


class QuantisingOptions(Options):
    share: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="of the training steps, the last ones, in which the successor computes as its export to int8 will; 0 for none",
    )
    learning_rate: float | None = Field(
        None, gt=0, description="peak learning rate in those steps; a fifth of training.learning_rate if absent"
    )
    safe_range: Literal["auto"] | bool = Field(
        "auto", description="7 bits for weights, as `plankwise export --safe-range` has them; auto: what this CPU needs"
    )


class TrainingOptions(FitOptions):
    max_length: int = Field(128, ge=4, description="tokens per example; the rest is cut off, and counted")
    quantising: QuantisingOptions = Field(QuantisingOptions(), description="training for int8, after the method")


class PredecessorOptions(Options):
    path: str = Field(
        "embedded",
        min_length=1,
        description="hub name or local folder; 'embedded' is the 6-layer encoder of plankwise[demo]",
    )
    finetune: Literal["auto"] | bool = Field(
        "auto", description="train it on the task first; auto: only if it has no trained head for the task"
    )
    training: FitOptions = Field(
        FitOptions(learning_rate=5e-5, warmup_share=0.1), description="like [training], for the predecessor"
    )
    remote_code: bool = Field(False, description="run code that comes with the model")


class EvaluationOptions(Options):
    @model_validator(mode="before")
    @classmethod
    def _floor_is_truncated(cls, data: Any) -> Any:
        """The key's earlier name, in recipes and in folders of earlier runs."""
        if isinstance(data, dict) and "floor" in data and "truncated" not in data:
            return {"truncated": data["floor"], **{key: value for key, value in data.items() if key != "floor"}}
        return data

    truncated: bool = Field(True, description="also train the truncated model on the same budget, to compare with")
    runtime: str = Field(
        "torch", description="what predicts when models are scored and timed; see `plankwise list runtimes`"
    )
    latency: bool = Field(True, description="measure the time of a prediction, predecessor and successor interleaved")
    latency_batch_sizes: list[Annotated[int, Field(ge=1)]] = Field(
        [1, 32], min_length=1, description="texts predicted at once"
    )
    latency_predictions: int = Field(
        100,
        ge=1,
        description="timed predictions per model and batch size; up to four times as many if the speed-up is unsteady",
    )
    choose_on: Literal["dev", "train"] = Field(
        "dev",
        description="what chooses a stage's best weights: dev, or a tenth of the training examples, kept out of training",
    )
    batch_size: int = Field(64, ge=1, description="examples per forward pass when scoring")
    ignore_guards: list[Guard] = Field(
        [],
        description="go on although a guard objects to the predecessor, which the record then says: majority (it is no better than "
        "always answering the most frequent class), label_order (its classes seem to be in another order)",
    )
    estimate: bool = Field(True, description="say beforehand how long the run will take, from a few of its steps")

    @field_validator("runtime")
    @classmethod
    def _known_runtime(cls, value: str) -> str:
        if value not in (known := list_kinds("runtimes")):
            raise ConfigError(f"evaluation.runtime is {value!r}; {no_such(value, known, 'runtime')}")
        return value


class RunConfig(Options):
    run: RunOptions = RunOptions()
    predecessor: PredecessorOptions = PredecessorOptions()
    task: Any = Field(default_factory=lambda: {"name": DEFAULT_KINDS["task"]})
    plan: PlanOptions = PlanOptions()
    method: Any = Field(default_factory=lambda: {"name": DEFAULT_KINDS["method"]})
    training: TrainingOptions = TrainingOptions()
    evaluation: EvaluationOptions = EvaluationOptions()
    analysis: AnalysisOptions = AnalysisOptions()

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_defaults(cls, data: dict) -> dict:
        """What the run's effort sets, then what the method sets, where nothing is said otherwise."""
        data = lay_under(data, _task_kind(data))
        method = data.get("method", {})
        try:
            module = load_kind("methods", _kind_name(method, DEFAULT_KINDS["method"]), key="method.name")
        except ConfigError:
            return data  # said where the section is read, beside all other errors
        filled = dict(data)
        given_method = method if isinstance(method, dict) else method.model_dump()
        for section, values in module.defaults(given_method).items():
            given = data.get(section, {})
            if isinstance(given, dict):
                filled[section] = {**(unless_shaped(values, given) if section == "plan" else values), **given}
        return filled

    @field_validator("task", mode="before")
    @classmethod
    def _read_task(cls, value: Any) -> Any:
        return _read_kind("task", value)

    @field_validator("method", mode="before")
    @classmethod
    def _read_method(cls, value: Any) -> Any:
        return _read_kind("method", value)

    @model_validator(mode="after")
    def _parts_know_their_options(self) -> Self:
        for part, options in self.plan.parts_used():
            validate_part(part, options)
        return self

    @model_validator(mode="after")
    def _head_can_be_solved(self) -> Self:
        if self.plan.solving.head == "kept":
            return self
        if self.run.effort == HOURS:
            raise ConfigError(
                "plan.solving.head is 'labels', but run.effort is 'hours', whose search also trains successors behind the "
                "predecessor's own head; leave one of them out"
            )
        if getattr(load_kind("methods", self.method.name, key="method.name"), "KEEPS_HEAD", False):
            raise ConfigError(
                f"plan.solving.head is 'labels', but method.name is {self.method.name!r}, in which the predecessor's blocks "
                "answer through the same head; choose method.name = 'solve' or 'kd', or leave it at 'kept'"
            )
        return self

    @model_validator(mode="after")
    def _method_can_be_quantised(self) -> Self:
        share = self.training.quantising.share
        why_not = getattr(load_kind("methods", self.method.name, key="method.name"), "NOT_QUANTISED", None)
        if share and why_not:
            raise ConfigError(
                f"training.quantising.share is {share:g}, but method.name is {self.method.name!r}, and {why_not}; "
                "set the share to 0, or choose another method"
            )
        return self

    @field_serializer("task", "method")
    def _write_kind(self, value: Options) -> dict:
        return value.model_dump(mode="json")

    def to_toml(self) -> str:
        """The whole config, defaults included; reading it again gives the same config."""
        return tomli_w.dumps(without_none(self.model_dump(mode="json")))


def _kind_name(section: Any, default: str) -> Any:
    return section.get("name", default) if isinstance(section, dict) else getattr(section, "name", None)


def _task_kind(data: dict) -> str | None:
    """The kind of task; None if there is no such task, which is said where the section is read."""
    try:
        module: Any = load_kind("tasks", _kind_name(data.get("task", {}), DEFAULT_KINDS["task"]), key="task.name")
    except ConfigError:
        return None
    return module.KIND


def _read_kind(section: str, value: Any) -> Any:
    if isinstance(value, Options):
        return value
    default = DEFAULT_KINDS[section]
    if not isinstance(value, dict):
        raise ConfigError(f"{section} is {value!r}; give a section, for example {section}.name = {default!r}")
    name = _kind_name(value, default)
    return load_kind(f"{section}s", name, key=f"{section}.name").Options.model_validate({**value, "name": name})


def load_config(path: Path | None, overrides: list[str]) -> RunConfig:
    """The config of a recipe with `key=value` overrides applied; without a recipe, the defaults.

    Raises:
        ConfigError: everything that is wrong, gathered in one message.
    """
    return validate_config(load_data(path, overrides))


def load_data(path: Path | None, overrides: list[str]) -> dict:
    """The same before it is validated, so that more can be overridden: a method sets defaults of other sections.

    Raises:
        ConfigError: the recipe is not a TOML file, or an override is not of the form key=value.
    """
    data = {} if path is None else read_toml(Path(path))
    for override in overrides:
        apply_override(data, override)
    run = data.get("run", {})
    if path is not None and isinstance(run, dict) and "name" not in run:
        data["run"] = {**run, "name": Path(path).stem}
    return data


def validate_config(data: dict) -> RunConfig:
    """The config in `data`, as read from TOML.

    Raises:
        ConfigError: everything that is wrong, gathered in one message.
    """

    def kind_of(section: str) -> Any:
        name = _kind_name(data.get(section, {}), DEFAULT_KINDS[section])
        known = name in list_kinds(f"{section}s")
        return load_kind(f"{section}s", name, key=f"{section}.name").Options if known else None

    return validate(RunConfig, data, sections={name: partial(kind_of, name) for name in DEFAULT_KINDS})


def validate_part(part: str, options: dict[str, Any]) -> Any:
    """A part's options.

    Raises:
        ConfigError: there is no such part or option, or a value that it does not take.
    """
    return validate(load_kind("parts", part, key="plan.part").Options, options, prefix="plan.options.")
