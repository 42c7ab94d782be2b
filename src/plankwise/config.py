"""RunConfig: what a run is asked to do. Strict, every default visible, `key=value` overrides.

The key path is the same in TOML, on the command line and in errors: `method.schedule.start`. The sections `task` and
`method` are described by the kind that they name (`tasks/glue.py`, `methods/replacing.py`), so a new kind needs no edit here.
"""

import tomllib
from pathlib import Path
from typing import Any, Literal, Self

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, field_validator, model_validator

from plankwise.errors import ConfigError
from plankwise.kinds import load_kind, no_such


class Options(BaseModel):
    """A section of a recipe: frozen, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


class RunOptions(Options):
    name: str = Field("run", pattern=r"^[\w.-]+$", description="the run's name: letters, digits, . _ -")
    folder: str = Field("", description="where the run is written; runs/NAME when empty")
    seed: int = Field(0, ge=0, description="seeds data order, the dev split, dropout and the masks")

    @model_validator(mode="before")
    @classmethod
    def _name_the_folder(cls, data: dict) -> dict:
        return data if data.get("folder") else {**data, "folder": f"runs/{data.get('name', 'run')}"}


class FitOptions(Options):
    epochs: float = Field(3.0, gt=0, description="passes over the training examples")
    max_steps: int | None = Field(None, ge=1, description="optimiser steps; overrides epochs")
    batch_size: int = Field(32, ge=1, description="examples per optimiser step and device")
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
    report_to: list[str] = Field([], description="trackers, as in transformers: tensorboard, mlflow, wandb, trackio")


class TrainingOptions(FitOptions):
    max_length: int = Field(128, ge=4, description="tokens per example; the rest is cut off, and counted")


class PredecessorOptions(Options):
    path: str = Field(
        "embedded", description="hub name or local folder; 'embedded' is the 6-layer encoder of plankwise[demo]"
    )
    finetune: Literal["auto"] | bool = Field(
        "auto", description="train it on the task first; auto: only if it has no trained head for the task"
    )
    training: FitOptions = Field(
        FitOptions(learning_rate=5e-5, warmup_share=0.1), description="like [training], for the predecessor"
    )
    remote_code: bool = Field(False, description="run code that comes with the model")


class SlotOptions(Options):
    path: str = Field(description="a module's path, or a chain's path when span is given; * stands for any index")
    span: list[int] | None = Field(None, description="consecutive indices in the chain")
    part: str | None = Field(None, description="kind of successor; plan.part if absent")


class PlanOptions(Options):
    successors: int | None = Field(None, ge=1, description="even spans per chain; half the blocks if nothing is said")
    spans: list[list[int]] | None = Field(
        None, description="listed spans, uneven if you like; a block in no span is left alone"
    )
    slots: list[SlotOptions] | None = Field(None, description="slots by path, for anything else")
    chains: list[str] | None = Field(None, description="paths of the chains to compress; all that are found if absent")
    part: str = Field("layers", description="kind of successor; see `plankwise list parts`")
    init: str = Field(
        "lower",
        description="weights to start from: first, lower, upper, spread, mean, random, or a checkpoint's folder",
    )

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> Self:
        given = [name for name in ("successors", "spans", "slots") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ConfigError(
                f"{' and '.join(given)} are both given; they say the same thing in different ways: keep one"
            )
        return self


class EvaluationOptions(Options):
    floor: bool = Field(True, description="also train the truncated model on the same budget, to compare with")
    latency: bool = Field(True, description="measure the time of a prediction, predecessor and successor interleaved")
    latency_batch_sizes: list[int] = Field([1, 32], min_length=1, description="texts predicted at once")
    latency_predictions: int = Field(100, ge=1, description="timed predictions per model and batch size")
    batch_size: int = Field(64, ge=1, description="examples per forward pass when scoring")


class RunConfig(Options):
    run: RunOptions = RunOptions()
    predecessor: PredecessorOptions = PredecessorOptions()
    task: Any = Field(default_factory=lambda: {"name": "reviews"})
    plan: PlanOptions = PlanOptions()
    method: Any = Field(default_factory=lambda: {"name": "replacing"})
    training: TrainingOptions = TrainingOptions()
    evaluation: EvaluationOptions = EvaluationOptions()

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_methods_defaults(cls, data: dict) -> dict:
        method = data.get("method", {})
        module = load_kind("methods", _kind_name(method, "replacing"), key="method.name")
        filled = dict(data)
        for section, values in module.defaults(method).items():
            given = data.get(section, {})
            filled[section] = {**values, **given} if isinstance(given, dict) else given
        return filled

    @field_validator("task", mode="before")
    @classmethod
    def _read_task(cls, value: Any) -> Any:
        return _read_kind("tasks", "task", value, "reviews")

    @field_validator("method", mode="before")
    @classmethod
    def _read_method(cls, value: Any) -> Any:
        return _read_kind("methods", "method", value, "replacing")

    @field_serializer("task", "method")
    def _write_kind(self, value: Options) -> dict:
        return value.model_dump(mode="json")

    def to_toml(self) -> str:
        """The whole config, defaults included; reading it again gives the same config."""
        return tomli_w.dumps(_without_none(self.model_dump(mode="json")))


def _kind_name(section: Any, default: str) -> str:
    return section.get("name", default) if isinstance(section, dict) else getattr(section, "name", default)


def _read_kind(folder: str, section: str, value: Any, default: str) -> Any:
    if not isinstance(value, dict):
        return value
    name = _kind_name(value, default)
    return load_kind(folder, name, key=f"{section}.name").Options.model_validate({**value, "name": name})


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value


def load_config(path: Path | None, overrides: list[str]) -> RunConfig:
    """The config of a recipe with `key=value` overrides applied; without a recipe, the defaults.

    Raises:
        ConfigError: everything that is wrong, gathered in one message.
    """
    data: dict = {}
    if path is not None:
        try:
            data = tomllib.loads(Path(path).read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"recipe {path} cannot be read: {error}") from None
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"recipe {path} is not TOML: {error}") from None
    for override in overrides:
        _apply_override(data, override)
    if path is not None and "name" not in data.get("run", {}):
        data.setdefault("run", {})["name"] = Path(path).stem
    return validate_config(data)


def _apply_override(data: dict, override: str) -> None:
    key, separator, text = override.partition("=")
    if not separator or not key:
        raise ConfigError(f"override {override!r} is not of the form key=value, for example plan.successors=4")
    *parents, last = key.split(".")
    for parent in parents:
        data = data.setdefault(parent, {})
        if not isinstance(data, dict):
            raise ConfigError(f"override {override!r}: {parent} holds a value, not a section")
    try:
        data[last] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        data[last] = text


def validate_config(data: dict) -> RunConfig:
    """The config in `data`, as read from TOML.

    Raises:
        ConfigError: everything that is wrong, gathered in one message.
    """
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(error, data))) from None


def _explain(error: ValidationError, data: dict) -> list[str]:
    return [_sentence(item, data) for item in error.errors()]


def _sentence(item: Any, data: dict) -> str:
    path = [str(step) for step in item["loc"]]
    key = ".".join(path)
    message = item["msg"].removeprefix("Value error, ")
    kind = item["type"]
    if kind == "extra_forbidden":
        return f"{key}: {no_such(path[-1], _known_keys(path[:-1], data), 'key')}"
    if kind == "missing":
        return f"{key} is missing; it is needed"
    if kind == "value_error":
        return message if message.startswith(f"{key}") or not key else f"{key}: {message}"
    return f"{key} is {item['input']!r}; {message[0].lower()}{message[1:]}"


def _known_keys(path: list[str], data: dict) -> list[str]:
    model: Any = RunConfig
    for index, step in enumerate(path):
        if index == 0 and step in ("task", "method"):
            default = "reviews" if step == "task" else "replacing"
            model = load_kind(f"{step}s", _kind_name(data.get(step), default), key=f"{step}.name").Options
        elif step in getattr(model, "model_fields", {}):
            annotation = model.model_fields[step].annotation
            arguments = [annotation, *getattr(annotation, "__args__", ())]
            nested = [inner for a in arguments for inner in (a, *getattr(a, "__args__", ()))]
            model = next((a for a in nested if isinstance(a, type) and issubclass(a, BaseModel)), model)
    return list(model.model_fields)
