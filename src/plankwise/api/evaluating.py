"""`plankwise.evaluate`: the scores of a trained model on a task's dev set."""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plankwise.api.given import Data
from plankwise.api.options import Section, complete, gather, open_console
from plankwise.config import validate_config
from plankwise.errors import ConfigError
from plankwise.report.remarks import constant_claim
from plankwise.report.results import Results
from plankwise.run.folders import find_config, refer_to_predecessor
from plankwise.run.inference import evaluate as _evaluate

BEYOND = "beyond_constant"


@dataclass(frozen=True)
class Scores(Mapping[str, float]):
    """Metrics by name; `score` is the one that counts. Shows itself as a table."""

    metrics: dict[str, float]
    beyond_constant: dict[str, Any] | None = field(
        default=None
    )  # whether the model knows more than one answer, with its test

    def __getitem__(self, name: str) -> float:
        return self.metrics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    @property
    def results(self) -> Results:
        """The table, and a remark on a model that knows one answer only."""
        remark = constant_claim({BEYOND: self.beyond_constant} if self.beyond_constant else {})
        rows = [(name, f"{value:.4f}") for name, value in self.metrics.items()]
        return Results("scores on dev", ("metric", "value"), rows, notes=[f"the model {remark}"] if remark else [])

    def __repr__(self) -> str:
        return self.results.as_text()

    def _repr_html_(self) -> str:
        return self.results.as_html()


def evaluate(
    model: Any,
    *,
    task: str | Section | Data | None = None,
    recipe: str | Path | None = None,
    tokenizer: Any = None,
    training: Section | None = None,
    evaluation: Section | None = None,
    predecessor: Section | None = None,
    run: Section | None = None,
    quiet: bool = True,
) -> Scores:
    """Scores a trained model on a task's dev set.

    Args:
        model: A folder, a hub name, or a Hugging Face model in memory.
        task: As in `plankwise.compress`; by default that of the run that the model's folder lies in.
        recipe: A TOML file that says the task.
        tokenizer: The model's, if the model is given in memory.
        quiet: Prints no progress.

    Raises:
        PlankwiseError: The model or the data cannot be used, or they do not belong together.
    """
    own = find_config(str(model)) if isinstance(model, str | Path) else None
    if recipe is None and own is None and task is None:
        raise ConfigError(
            "the model does not lie in the folder of a run, so its task is not known; give task= or recipe="
        )
    sections = {"training": training, "evaluation": evaluation, "predecessor": predecessor, "run": run}
    data = gather(recipe or own, model, task, sections)
    with tempfile.TemporaryDirectory(prefix="plankwise.") as folder:
        config = validate_config(complete(data, model, tokenizer, Path(folder)))
        if own is not None:
            config = refer_to_predecessor(config, own)
        metrics = _evaluate(config, open_console(quiet=quiet))
    beyond = metrics.pop(BEYOND, None)
    return Scores(metrics, beyond)
