"""What happened in training: loss, held-out score, replacing rate, which slots were drawn."""

from plankwise.report._axes import Axis
from plankwise.report._html import Cell, Column, cell, figure, grid, paragraph, table
from plankwise.report._text import cut, is_number, number, share
from plankwise.report.charts import Series, heat_map, line_chart
from plankwise.report.verdict import is_text, score_name

STEP = "training step"
MAX_COLUMNS = 40
TONES = {"predecessor": "predecessor", "floor": "floor", "model": "predecessor", "head": "other"}
SHOWN = {"floor": "truncated"}


def series_of(record: dict, key: str, *, fitting: bool = False) -> list[Series]:
    """One line a stage that logged `key`, by step."""
    found = []
    for name, stage in record.get("stages", {}).items():
        points = [(entry["step"], entry[key]) for entry in stage.get("history", []) if is_number(entry.get(key))]
        if points and (name == "fitting") == fitting:
            found.append(Series(SHOWN.get(name, name), points, TONES.get(name, "successor")))
    return found


def score_series(record: dict) -> tuple[list[Series], str]:
    """Held-out scores by step, and what they are."""
    perplexity = series_of(record, "eval_perplexity") if is_text(record) else []
    if perplexity:
        return perplexity, "perplexity"
    name = score_name(record)
    return series_of(record, "eval_score"), "1 / perplexity" if is_text(record) else name


def training(record: dict) -> str:
    """The charts of a run's training; empty if nothing was logged."""
    steps = Axis(STEP, low=0)
    scores, name = score_series(record)
    return grid(
        _lines(
            "Loss on the training examples", series_of(record, "loss"), steps, Axis("loss, mean since the last mark")
        ),
        _lines(f"Score on dev: {name}", scores, steps, Axis(name, show=lambda value: f"{value:.4g}")),
        _lines(
            "Replacing rate",
            series_of(record, "replacing_rate"),
            steps,
            Axis("probability that a successor runs", low=0.0, high=1.0),
        ),
        _masks(record),
        _lines(
            "Fitting the successors beforehand",
            series_of(record, "loss", fitting=True),
            steps,
            Axis("loss: relative error"),
        ),
    ) + "".join((_remarks(record), _estimate(record)))


def merge_bins(bins: list[dict], most: int = MAX_COLUMNS) -> list[dict]:
    """Neighbouring bins added up until there are at most `most`."""
    size = -(-len(bins) // most)
    groups = [bins[start : start + size] for start in range(0, len(bins), size)]
    return [
        {
            "step": group[0]["step"],
            "steps": sum(one["steps"] for one in group),
            "replaced": [sum(counts) for counts in zip(*(one["replaced"] for one in group), strict=True)],
        }
        for group in groups
    ]


def _lines(title: str, series: list[Series], x: Axis, y: Axis) -> str:
    if not series:
        return ""
    return figure(title, line_chart(title, series, x, y), [(one.name, one.tone) for one in series])


def _masks(record: dict) -> str:
    masks = record.get("masks") or {}
    if not masks.get("bins") or not masks.get("slots"):
        return ""
    bins = merge_bins(masks["bins"])
    shares = [[one["replaced"][row] / (one["steps"] or 1) for one in bins] for row in range(len(masks["slots"]))]
    title = "Which successors the coin drew"
    chart = heat_map(
        title,
        [cut(f"{index + 1}: {name.rpartition('.')[2] or name}", 18) for index, name in enumerate(masks["slots"])],
        [str(one["step"]) for one in bins],
        shares,
        "training step at which the bin begins",
        "slot",
        show=share,
        high=1.0,
        numbers=False,
    )
    return figure(
        title, chart, note="The stronger the colour, the larger the share of the steps in which the successor ran."
    )


def _estimate(record: dict) -> str:
    """What the run was expected to take, beside what it took; empty for a record without an estimate."""
    estimate = record.get("estimate") or {}
    if not estimate.get("phases"):
        return ""
    phases = {SHOWN.get(name, name): phase for name, phase in estimate["phases"].items()}
    rows = [
        [Cell(name), *(cell(phase.get(key), lambda value: number(value, 1)) for key in ("estimated", "measured"))]
        for name, phase in {**phases, "in all": estimate.get("seconds", {})}.items()
    ]
    columns = [Column("phase", numeric=False), Column("estimated (s)"), Column("measured (s)")]
    return table("Time of each phase, as estimated before the run and as measured", columns, rows, key="estimate")


def _remarks(record: dict) -> str:
    told = []
    for name, stage in record.get("stages", {}).items():
        if is_number(stage.get("best_score")):
            best = f"best {number(stage['best_score'])} at step {stage.get('best_step')}"
            told.append(
                f"{SHOWN.get(name, name)}: {stage.get('steps'):,} steps, {stage.get('seconds', 0):.0f} s, {best}"
            )
    if "rises" in record:
        told.append(f"the rate rose at steps {', '.join(map(str, record['rises'])) or 'none'}")
    return paragraph("; ".join(told) + ".", "note") if told else ""
