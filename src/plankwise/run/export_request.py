"""What an export is asked for, of which model, and where it goes; light, so that mistakes are told at once."""

from dataclasses import dataclass
from pathlib import Path

from plankwise.errors import ConfigError
from plankwise.export import STATIC, choose
from plankwise.run.folders import CONFIG, read_config

FOLDER = "export"  # in a run's folder
TASK = "task"  # as a source of texts: the training texts
MODELS = ("successor", "predecessor", "truncated")


@dataclass(frozen=True)
class ExportRequest:
    """What an export is asked for."""

    format: str
    precision: str = "fp32"
    quantise: str | None = None
    safe_range: bool | None = None  # what this machine needs, if None
    check: bool = False
    tolerance: float = 0.01  # the share of the score that may be lost
    max_length: int | None = None  # of tokens that predict.py cuts texts to; as many as the model takes if None
    force: bool = False  # whether an export that is there already is replaced
    vocabulary: tuple[
        str, ...
    ] = ()  # sources of texts that say which tokens are kept: task, or text files; all if none

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < 1:
            raise ConfigError(f"--tolerance is {self.tolerance}; give a share of the score, 0 or more and below 1")
        how = choose(self.format, self.precision, self.quantise, safe_range=self.safe_range)
        object.__setattr__(self, "quantise", how.quantise)
        if self.vocabulary and self.quantise == STATIC:
            raise ConfigError(
                "--vocabulary and --quantise static do not go together; trim first, with `plankwise trim`, then export that folder"
            )

    @property
    def name(self) -> str:
        """Of the folder, in the usual place."""
        more = ("-static" if self.quantise == STATIC else "") + ("-trimmed" if self.vocabulary else "")
        return f"{self.format}-{self.precision}{more}"

    @property
    def needs_task(self) -> bool:
        return self.check or self.quantise == STATIC or TASK in self.vocabulary


def model_of_run(folder: Path, name: str) -> str:
    """Where the model of that name in a run's folder is; a predecessor that was given may lie elsewhere.

    Raises:
        ConfigError: the run has no such model.
    """
    if name not in MODELS:
        raise ConfigError(f"--model is {name!r}; choose one of {', '.join(MODELS)}")
    if (folder / name / "config.json").is_file():
        return str(folder / name)
    if name == "predecessor" and read_config(folder).predecessor.finetune is not True:
        return read_config(folder).predecessor.path
    raise ConfigError(
        f"{folder} has no {name}: the run was not finished, or did not keep it; choose another with --model"
    )


def usual_place(source: Path, name: str, model: str | None) -> Path:
    """RUN/export/NAME for a run's model, the model's name before it unless it is the successor; else beside the model's folder."""
    if model is None:
        return source.parent / f"{source.name}-{name}"
    return source / FOLDER / (name if model == MODELS[0] else f"{model}-{name}")


def is_run(source: str) -> bool:
    """Whether it is the folder of a run, not of a model."""
    folder = Path(source).expanduser()
    return (folder / CONFIG).is_file() and not (folder / "config.json").is_file()
