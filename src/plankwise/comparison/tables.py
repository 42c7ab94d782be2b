"""A comparison as tables: rows, their verdicts and notes, and how the terminal shows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from rich.console import Console
from rich.table import Table

from plankwise.comparison.cells import GridCell
from plankwise.comparison.given import GIVEN
from plankwise.comparison.grid import TaskResult
from plankwise.comparison.speed import PREDECESSOR
from plankwise.comparison.statistics import (
    Comparison,
    Summary,
    choose_baselines,
    compare_with_baseline,
    macro,
    rank,
    summarise,
)
from plankwise.evaluation.metrics import retained
from plankwise.report.remarks import (
    ADVICE,
    MARK,
    NO_ROW,
    constant_remark,
    guard_remarks,
    has_learnt,
    has_learnt_in_most,
    held_back_median,
    held_back_note,
    seeds_remark,
    zeros_remark,
)
from plankwise.report.results import Results
from plankwise.report.speed import ShownSpeedup, read_speedup
from plankwise.task_kinds import Answers

WIDTH = 100
OWN_BUDGET = "own budget"
COLUMNS = ("median", "spread", "best", "retained", "seconds", "params", "latency", "speed-up")
MEANING = (
    "median, spread (highest less lowest) and best are over the seeds; retained is the median's share of the predecessor's "
    "score; seconds are of the row's own training, without the predecessor's, mean over the seeds; speed-up is the median of "
    "paired ratios with its 95 % interval; p is of a paired randomisation test over the dev examples, Holm-corrected over the "
    "rows of a table"
)


@dataclass(frozen=True)
class Row:
    """A line of one task's table; a row without a summary has failed in all seeds."""

    label: str
    summary: Summary | None
    parameters: int | None
    latency_ms: float | None
    faster: ShownSpeedup | None
    verdict: str
    comparison: Comparison | None = None
    own_budget: bool = False
    given: bool = False  # made elsewhere, not trained here
    failure: str = ""  # which seeds failed, and why
    remark: str = ""  # of seeds that are not shown to know more than one answer
    learnt: bool = True  # most seeds are
    held_back: float | None = None  # median of the score on a half of dev that did not choose the checkpoint
    rank: int | None = None  # by the median, among rows that have learnt the task; equals share one

    @property
    def speedup(self) -> float | None:
        return None if self.faster is None else self.faster.ratio

    @property
    def name(self) -> str:
        return (
            f"{self.label}, {OWN_BUDGET if self.own_budget else GIVEN}" if self.own_budget or self.given else self.label
        )


@dataclass(frozen=True)
class TaskTable:
    task: TaskResult
    rows: list[Row]  # the predecessor first
    baseline: str | None

    @property
    def notes(self) -> list[str]:
        """What has to be said below the table."""
        rows = [row for row in self.rows if row.label != PREDECESSOR and row.summary is not None]
        dead = [row.label for row in rows if not row.learnt]
        told = [f"{NO_ROW if len(dead) == len(rows) else ', '.join(dead)}: {ADVICE}"] if dead else []
        told += guard_remarks(self.task.predecessor.get("ignored_guards") or {})
        for row in rows:
            zeros = next((text for cell in self.task.cells_of(row.label) if (text := zeros_remark(cell.notes))), "")
            told += [f"{row.label}: {zeros}"] if zeros else []
        if self.task.given:
            models = ", ".join(f"{row.label} ({row.path})" for row in self.task.given)
            told.append(f"given, not trained here, and one model for all seeds: {models}")
        note = held_back_note([(row.label, row.held_back) for row in self.rows])
        return [*told, *([note] if note else []), *self._beside()]

    def _beside(self) -> list[str]:
        """A line for each metric that the task has beside its score: medians over the seeds."""
        told = []
        for name in self.task.task.beside:
            found = {PREDECESSOR: [self.task.predecessor["metrics"].get(name)]}
            for cell in self.task.cells:
                if cell.failure is None:
                    found.setdefault(cell.label, []).append(cell.metrics.get(name))
            known = {label: [one for one in values if one is not None] for label, values in found.items()}
            values = [f"{label} {median(some):.4f}" for label, some in known.items() if some]
            told += [f"{name}: {', '.join(values)}"] if values else []
        return told

    @property
    def title(self) -> str:
        seeds = len({cell.seed for cell in self.task.cells})
        scores = " and ".join(self.task.score_names)
        return f"{self.task.name}: score is {scores} on dev, {seeds} seed{'s' if seeds > 1 else ''}"


def tabulate(task: TaskResult) -> TaskTable:
    """The rows of one task, each compared with the best baseline."""
    good = {label: [cell for cell in task.cells_of(label) if cell.failure is None] for label in task.methods}
    summaries = {
        label: summarise([c.score for c in cells], [c.seconds for c in cells], task.retained)  # type: ignore[misc]
        for label, cells in good.items()
        if cells
    }
    given = {row.label for row in task.given}
    for label in given & summaries.keys():  # what training it took is not known
        summaries[label] = replace(summaries[label], seconds=None)
    methods = task.methods
    models = {label: [cell.described() for cell in cells] for label, cells in good.items()}
    learnt = [label for label in summaries if has_learnt_in_most(models[label])]
    medians = {label: summary.median for label, summary in summaries.items()}
    best = choose_baselines(medians, methods, learnt)
    baseline = best[0] if best else None
    ranks = rank({label: medians[label] for label in learnt})
    outputs = {label: {cell.seed: cell.outputs for cell in good[label]} for label in summaries}
    compared = {} if baseline is None else compare_with_baseline(task.task, outputs, baseline)

    def row(label: str) -> Row:
        failed, remark = _failures(task.cells_of(label)), seeds_remark(models[label])
        verdict = compared[label].verdict if label in compared else _not_compared(outputs, label, baseline)
        if label in best:
            others = [other for other in best if other != label]
            verdict = "best baseline" if methods[label] != "replacing" else "highest median"
            verdict += f", tied with {' and '.join(others)}" if others else ""
        if remark:
            verdict = f"{verdict}; {remark}" if label in learnt else remark
        return Row(
            label,
            summaries.get(label),
            good[label][0].parameters if good[label] else None,
            task.latency.get(label),
            _speedup(task, label),
            verdict if label in summaries else "failed",
            compared.get(label),
            label in task.own_budget,
            label in given,
            failed,
            remark,
            label in learnt or label not in summaries,
            held_back_median(models[label]),
            ranks.get(label),
        )

    return TaskTable(task, [_predecessor_row(task), *map(row, task.methods)], baseline)


def _not_compared(outputs: Mapping[str, Mapping[int, Answers]], label: str, baseline: str | None) -> str:
    if baseline is None or not outputs.get(label, {}).keys() & outputs.get(baseline, {}).keys():
        return "no seed in common with the baseline"
    return "not tested: the task keeps no outputs by example"


def _predecessor_row(task: TaskResult) -> Row:
    before = task.predecessor
    value = before["score"]
    summary = Summary(value, 0.0, value, task.retained(value), before["seconds"])
    latency = before["latency_ms"]
    remark = constant_remark(before)
    return Row(
        PREDECESSOR,
        summary,
        before["parameters"],
        latency,
        None if latency is None else ShownSpeedup(1.0),
        remark,
        remark=remark,
        learnt=has_learnt(before),
        held_back=held_back_median([before]),
    )


def _speedup(task: TaskResult, label: str) -> ShownSpeedup | None:
    """As it was measured; in the folder of an earlier version by the medians of the times."""
    before, after = task.predecessor["latency_ms"], task.latency.get(label)
    if before is None or after is None:
        return None
    size = str(task.latency_batch)
    return read_speedup(vars(task), label, size) or ShownSpeedup(before / after, size)


def _failures(cells: list[GridCell]) -> str:
    """How many seeds there are, and why the others failed; empty if none did."""
    reasons: dict[str, list[str]] = {}
    for cell in cells:
        if cell.failure is not None:
            reasons.setdefault(cell.failure, []).append(str(cell.seed))
    if not reasons:
        return ""
    failed = sum(map(len, reasons.values()))
    told = [f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)} failed: {why}" for why, seeds in reasons.items()]
    return "; ".join([f"{len(cells) - failed} of {len(cells)} seeds", *told])


def macro_rows(tables: Sequence[TaskTable]) -> list[tuple[str, float | None, float | None]]:
    """For the predecessor and every label: the mean of the medians over the tasks, and its retained share."""
    found: list[tuple[str, float | None, float | None]] = []
    before = None
    for index, row in enumerate(tables[0].rows):
        rows = [table.rows[index] for table in tables]
        names = [table.task.task.name for table in tables]
        medians = [row.summary.median if row.summary else None for row in rows]
        mean = macro(list(zip(names, medians, strict=True)))
        before = mean if index == 0 else before
        share = retained(mean, before) if mean is not None and before is not None and before > 0 else None
        found.append((row.label, mean, share))
    return found


def show_tables(tables: Sequence[TaskTable], console: Console) -> None:
    """One table a task, at most 100 columns wide; verdicts stand below where there is no room beside the figures."""
    wide = console.width >= WIDTH
    for table in tables:
        console.print(table.title)
        shown = Table(box=None, pad_edge=False)
        shown.add_column("", overflow="fold")
        columns = columns_of(table.task)
        for column in columns:
            shown.add_column(column, justify="right", no_wrap=True)
        if wide:
            shown.add_column("verdict")
            shown.width = WIDTH
        for row in table.rows:
            shown.add_row(row.name, *figures_of(row)[: len(columns)], *([row.verdict] if wide else []))
        console.print(shown)
        for row in table.rows:
            if not wide and row.verdict:
                console.print(f"{row.label}: {row.verdict}", soft_wrap=True)
            if row.failure:
                console.print(f"{row.label}: {row.failure}", soft_wrap=True)
        for note in table.notes:
            console.print(note, soft_wrap=True)
        console.print()
    if len(tables) > 1:
        console.print(macro_title(tables))
        shown = Table(box=None, pad_edge=False)
        shown.add_column("", overflow="fold")
        for column in ("macro", "retained"):
            shown.add_column(column, justify="right", no_wrap=True)
        for label, mean, share in macro_rows(tables):
            shown.add_row(label, show_score(mean), show_share(share, marked=label in unlearnt(tables)))
        console.print(shown)


def table_results(table: TaskTable) -> Results:
    """One task's table as Python and a notebook show it."""
    columns = columns_of(table.task)
    rows = [[row.name, *figures_of(row)[: len(columns)], row.verdict] for row in table.rows]
    failures = [f"{row.label}: {row.failure}" for row in table.rows if row.failure]
    return Results(table.title, ["", *columns, "verdict"], rows, notes=[*failures, *table.notes])


def macro_title(tables: Sequence[TaskTable]) -> str:
    names = [table.task.task.name for table in tables]
    left_out = " without WNLI" if "glue/wnli" in names and all(name.startswith("glue/") for name in names) else ""
    return f"mean of the medians over {len(tables)} tasks{left_out}"


def columns_of(task: TaskResult) -> list[str]:
    """Those of COLUMNS that were measured."""
    if task.latency_batch is None:
        return list(COLUMNS[:-2])
    return [f"ms @{task.latency_batch}" if column == "latency" else column for column in COLUMNS]


def figures_of(row: Row, *, full: bool = False) -> list[str]:
    """A row's figures as text, in the order of COLUMNS; the interval of the speed-up in full, or as a share."""
    summary, before = row.summary, row.label == PREDECESSOR
    if summary is None:
        return ["failed", *[""] * (len(COLUMNS) - 1)]
    return [
        show_score(summary.median),
        "" if before else show_score(summary.spread),
        "" if before else show_score(summary.best),
        show_share(summary.retained, marked=not row.learnt),
        "" if summary.seconds is None else f"{summary.seconds:.0f}",
        show_count(row.parameters),
        "" if row.latency_ms is None else f"{row.latency_ms:.2f}",
        "" if row.faster is None else row.faster.text if full else row.faster.brief,
    ]


def show_score(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def show_share(value: float | None, *, marked: bool = False) -> str:
    """A retained share; marked where it is not an achievement."""
    return "" if value is None else f"{value:.1%}{MARK if marked else ''}"


def unlearnt(tables: Sequence[TaskTable]) -> set[str]:
    """Labels of rows that have not learnt one of the tasks."""
    return {row.label for table in tables for row in table.rows if not row.learnt}


def show_count(value: int | None) -> str:
    if value is None:
        return ""
    return f"{value / 1e6:.1f} M" if value >= 1e6 else f"{value / 1e3:.1f} k"
