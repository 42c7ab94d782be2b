"""What happened in training: loss, held-out score, replacing rate, which slots were drawn."""

from plankwise.record import Shown
from plankwise.report._html import Column, paragraph, table
from plankwise.report._svg import show_all
from plankwise.report.charts import Axis, Chart, Charts, HeatMap, Lines, Series
from plankwise.report.remarks import held_back_remark
from plankwise.report.text import cut, fixed, is_number, number, share

STEPS = Axis("training step", low=0)
MAX_COLUMNS = 40
FITTING = "fitting"
TONES = {"predecessor": "predecessor", "truncated": "truncated", "model": "predecessor", "head": "other"}


def training(record: dict) -> str:
    """The charts of a run's training; empty if nothing was logged."""
    return show_all(training_charts(record)) + _remarks(record) + _estimate(record)


def training_charts(record: dict) -> Charts:
    """Loss, score and rate by step, which slots were drawn, and the loss of the fitting before it."""
    scores, name = _scores(record)
    rate = Axis("probability that a successor runs", low=0.0, high=1.0)
    fitting = _series(record, "loss", fitting=True)
    return {
        "loss": _lines(
            "Loss on the training examples", _series(record, "loss"), Axis("loss, mean since the last mark")
        ),
        "score": _lines(f"Score on dev: {name}", scores, Axis(name, show=lambda value: f"{value:.4g}")),
        "replacing-rate": _lines("Replacing rate", _series(record, "replacing_rate"), rate),
        "masks": _masks(record.get("masks") or {}),
        "fitting": _lines("Fitting the successors beforehand", fitting, Axis("loss: relative error")),
    }


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


def _series(record: dict, key: str, *, fitting: bool = False) -> list[Series]:
    """One line a stage that logged `key`, by step; the stage that fits successors apart from the others."""
    found = []
    for name, stage in record.get("stages", {}).items():
        points = [(entry["step"], entry[key]) for entry in stage.get("history", []) if is_number(entry.get(key))]
        if points and (name == FITTING) == fitting:
            found.append(Series(name, points, TONES.get(name, "successor")))
    return found


def _scores(record: dict) -> tuple[list[Series], str]:
    """Held-out scores by step, and what they are: the figure that the record shows, or else the score itself."""
    shown = Shown.of(record)
    if found := _series(record, f"eval_{shown.key}"):
        return found, shown.metric
    return _series(record, "eval_score"), " and ".join(record["task"].get("score") or ["score"])


def _lines(title: str, series: list[Series], y: Axis) -> list[Chart]:
    return [Lines(title, series, STEPS, y)] if series else []


def _masks(masks: dict) -> list[Chart]:
    if not masks.get("bins") or not masks.get("slots"):
        return []
    bins = merge_bins(masks["bins"])
    return [
        HeatMap(
            "Which successors the coin drew",
            rows=[
                cut(f"{index + 1}: {name.rpartition('.')[2] or name}", 18) for index, name in enumerate(masks["slots"])
            ],
            columns=[str(one["step"]) for one in bins],
            values=[[one["replaced"][row] / (one["steps"] or 1) for one in bins] for row in range(len(masks["slots"]))],
            x_label="training step at which the bin begins",
            y_label="slot",
            scale="share of steps in which the successor ran",
            show=share,
            high=1.0,
            numbers=False,
            note="The stronger the colour, the larger the share of the steps in which the successor ran.",
        )
    ]


def _estimate(record: dict) -> str:
    """What the run was expected to take, beside what it took; empty for a record without an estimate."""
    estimate = record.get("estimate") or {}
    if not estimate.get("phases"):
        return ""
    phases = {**estimate["phases"], "in all": estimate.get("seconds", {})}
    rows = [{"phase": name, **phase} for name, phase in phases.items()]
    columns = [Column("phase", "phase")]
    columns += [Column(f"{key} (s)", key, fixed(1)) for key in ("estimated", "measured")]
    return table("Time of each phase, as estimated before the run and as measured", columns, rows, key="estimate")


def _untrained(stage: dict, notes: dict) -> str:
    """What a stage without steps took, and what it changed if the record's notes of it say so."""
    told = f"{stage.get('seconds'):.0f} s, no training" if stage.get("seconds") else "no training"
    if is_number(notes.get("effect")):
        told += f", end effect {number(notes['effect'])} ({number(notes.get('effect_before'))} of copies)"
    return told


def _remarks(record: dict) -> str:
    told = []
    for name, stage in record.get("stages", {}).items():
        if stage.get("steps") == 0:
            told.append(f"{name}: {_untrained(stage, record.get(name) or {})}")
        elif is_number(stage.get("best_score")):
            best = f"best {number(stage['best_score'])} at step {stage.get('best_step')}"
            held_back = f" ({told_apart})" if (told_apart := held_back_remark(stage)) else ""
            told.append(f"{name}: {stage.get('steps'):,} steps, {stage.get('seconds', 0):.0f} s, {best}{held_back}")
    if "rises" in record:
        told.append(f"the rate rose at steps {', '.join(map(str, record['rises'])) or 'none'}")
    return paragraph("; ".join(told) + ".", "note") if told else ""
