"""`plankwise.compare`: methods on one task, from one predecessor, on one budget, over several seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plankwise.api.given import Data
from plankwise.api.options import Section, complete, gather, open_console
from plankwise.comparison.given import Given
from plankwise.comparison.grid import Variant, run_grid
from plankwise.comparison.tables import TaskTable, table_results, tabulate
from plankwise.comparison.writing import plain_row, write_tables
from plankwise.context import is_main_process
from plankwise.errors import ConfigError
from plankwise.kinds import list_kinds
from plankwise.report.page import write_report


@dataclass(frozen=True)
class Comparison:
    """A finished comparison: a table, and the folder with all that was written. Shows itself as the table."""

    table: TaskTable
    folder: Path

    @property
    def report(self) -> Path:
        """The comparison's page, written from its tables."""
        return write_report([self.folder], self.folder / "report.html")

    def to_pandas(self) -> Any:
        """The rows as a pandas.DataFrame, one a method."""
        import pandas

        return pandas.DataFrame([plain_row(row) for row in self.table.rows])

    def __repr__(self) -> str:
        return table_results(self.table).as_text()

    def _repr_html_(self) -> str:
        return table_results(self.table).as_html()


def compare(
    model: Any = None,
    *,
    task: str | Section | Data | None = None,
    recipe: str | Path | None = None,
    tokenizer: Any = None,
    methods: Sequence[str] | None = None,
    variants: Mapping[str, Sequence[str]] | None = None,
    rows: Mapping[str, str | Path] | None = None,
    seeds: int = 5,
    folder: str | Path | None = None,
    plan: Section | None = None,
    training: Section | None = None,
    evaluation: Section | None = None,
    predecessor: Section | None = None,
    run: Section | None = None,
    quiet: bool = False,
) -> Comparison:
    """Compares methods on one task; what is finished is not run again.

    Args:
        model: As in `plankwise.compress`.
        task: As in `plankwise.compress`.
        recipe: A TOML file.
        tokenizer: The model's, if the model is given in memory.
        methods: A row each; all that fit the task by default.
        variants: More rows, by label: `{"both": ["method.name=replacing", "method.alpha=0.5"]}`.
        rows: Trained models as more rows, by label: a run's folder, or any checkpoint for the task.
        seeds: How many; they are 0, 1, 2 and so on.
        folder: Where all is written; runs/compare-NAME by default.
        quiet: Prints nothing.

    Raises:
        PlankwiseError: Anything that you can fix; in one sentence.
    """
    if seeds < 1:
        raise ConfigError(f"seeds is {seeds}; give 1 or more")
    sections = {"plan": plan, "training": training, "evaluation": evaluation, "predecessor": predecessor, "run": run}
    data = gather(recipe, model, task, sections)
    place = Path(folder or Path("runs") / f"compare-{data.get('run', {}).get('name', 'run')}")
    data = complete(data, model, tokenizer, place)
    names = list_kinds("methods") if methods is None else methods
    trained = [Variant(name, (f"method.name={name}",), optional=methods is None) for name in names]
    trained += [Variant(label, tuple(keys)) for label, keys in (variants or {}).items()]
    given = [Given(label, str(path)) for label, path in (rows or {}).items()]
    console = open_console(quiet=quiet)
    (result,) = run_grid([data], trained, range(seeds), place, console, given)
    found = Comparison(tabulate(result), place)
    if is_main_process():
        write_tables([found.table], place)
    return found
