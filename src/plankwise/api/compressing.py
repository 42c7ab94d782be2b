"""`plankwise.compress`: the command's whole job from Python, for files and for data in memory."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from plankwise.api.given import Data
from plankwise.api.options import Section, complete, folder_of, gather, open_console
from plankwise.config import validate_config
from plankwise.context import is_main_process
from plankwise.models.loading import Loader, load
from plankwise.record import Shown
from plankwise.report.page import write_report
from plankwise.report.results import results_of
from plankwise.report.verdict import verdict
from plankwise.run.compress import compress as _run
from plankwise.run.training import SUCCESSOR


@dataclass(frozen=True)
class Compressed:
    """A finished run: its record, its folder, and the successor in it. Shows itself as a table."""

    record: dict[str, Any]
    folder: Path

    @cached_property
    def successor(self) -> Any:
        """The successor, loaded when it is first asked for, in eval mode."""
        return load(self.folder / SUCCESSOR)

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer that belongs to it."""
        return Loader().tokenizer(str(self.folder / SUCCESSOR))

    def pipeline(self, **options: Any) -> Any:
        """The successor as a pipeline of transformers: texts in, answers out."""
        from transformers import pipeline

        kind: Any = Shown.of(self.record).pipeline
        return pipeline(kind, model=self.successor, tokenizer=self.tokenizer, **options)

    @property
    def report(self) -> Path:
        """The run's page, written from its record."""
        return write_report([self.folder], self.folder / "report.html")

    @property
    def speedup(self) -> float | None:
        """Times by which the successor is faster; None if it was not measured."""
        return self.record.get("speedup")

    @property
    def retained(self) -> float | None:
        """The share of the predecessor's score that the successor keeps."""
        return self.record.get("retained")

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        return verdict(self.record)

    def __repr__(self) -> str:
        return f"{results_of(self.record).as_text()}\nsuccessor: {self.folder / SUCCESSOR}"

    def _repr_html_(self) -> str:
        return results_of(self.record).as_html()


def compress(
    model: Any = None,
    *,
    task: str | Section | Data | None = None,
    recipe: str | Path | None = None,
    tokenizer: Any = None,
    plan: Section | None = None,
    method: Section | None = None,
    training: Section | None = None,
    evaluation: Section | None = None,
    predecessor: Section | None = None,
    analysis: Section | None = None,
    run: Section | None = None,
    effort: str | None = None,
    within: str | None = None,
    quiet: bool = False,
) -> Compressed:
    """Compresses a model, from raw data to a measured successor in the run's folder; a call that was stopped goes on when repeated.

    Sections and keys are those of a recipe, so `training={"epochs": 1}` is `training.epochs = 1`. A section lies over the recipe's.

    Args:
        model: A folder, a hub name, or a Hugging Face model in memory; by default the recipe's, or else the embedded one.
        task: A task's name, a [task] section, or training examples alone. In a section `train`, `dev` and `test` may be files,
            pandas frames, `datasets.Dataset`, lists of dicts, or lists of (text, label) pairs.
        recipe: A TOML file.
        tokenizer: The model's, if the model is given in memory.
        effort: "seconds" (solved, not trained), "minutes" (solved, then a short training) or "hours" (a search); `run.effort`.
        within: How long it may take, such as "20min"; `run.within`.
        quiet: Prints nothing.

    Raises:
        PlankwiseError: Anything that you can fix; in one sentence.
    """
    asked = {"effort": effort, "within": within}
    sections = {
        "plan": plan,
        "method": method,
        "training": training,
        "evaluation": evaluation,
        "predecessor": predecessor,
        "analysis": analysis,
        "run": {**(run or {}), **{key: value for key, value in asked.items() if value is not None}} or None,
    }
    data = gather(recipe, model, task, sections)
    config = validate_config(complete(data, model, tokenizer, folder_of(data)))
    record = _run(config, open_console(quiet=quiet))
    found = Compressed(record, Path(config.run.folder))
    if is_main_process():
        write_report([found.folder], found.folder / "report.html")
    return found
