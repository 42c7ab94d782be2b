"""Where the models err: the four cells, confusion, calibration, classes and lengths, kinds of error, and the flips to read.

Tasks without labels of whole texts have an error view instead (`_error_view`).
"""

from typing import Any

from plankwise.report._error_view import PAIR, count_cells, found_of, is_view, show_view, view_charts
from plankwise.report._html import Column, TableCell, fold, paragraph, table
from plankwise.report._svg import show_all
from plankwise.report.charts import Axis, BarChart, Bars, Chart, Charts, HeatMap, Lines, Series
from plankwise.report.text import MISSING, cut, esc, is_number, number, share

MAX_LABELS = 12
MAX_TEXT = 600


def errors(record: dict) -> str:
    """The charts and tables of the analysis of errors; empty without one."""
    found = found_of(record)
    if is_view(found):
        return show_view(found)
    return (
        _agreement(found)
        + show_all(error_charts(record))
        + _all_classes(found)
        + _classes(found, "classes", "Kinds of error")
        + _classes(found, "hand_labels", "Labelled by hand")
    )


def error_charts(record: dict) -> Charts:
    """Confusion, calibration, what is right by length and by class, and kinds of error, each for both models."""
    found = found_of(record)
    return {
        "confusion": _confusions(found),
        "calibration": _calibration(found.get("calibration") or {}),
        "right-by-length": _by_length(found),
        "kinds-of-error": _kinds(found),
        "right-by-class": _by_class(found),
        "errors": view_charts(found),
    }


def flips(record: dict, key: str = "flips", most: int = 500) -> str:
    """The examples on which the models differ, with a filter; texts are cut at MAX_TEXT characters."""
    found = found_of(record)
    listed = found.get("flips") or []
    if not listed:
        return ""
    shown = listed[:most]
    total = found.get("flips_total", len(listed))
    kinds = [kind for kind in ("lost", "gained", "changed") if any(one["kind"] == kind for one in shown)]
    options = "".join(f'<option value="{kind}">{kind}</option>' for kind in kinds)
    items = "".join(_flip(one) for one in shown)
    left_out = f" The first {len(shown)} of {total:,} are listed." if len(shown) < total else ""
    return (
        paragraph(
            f"Examples on which the two models give different answers; lost: only the predecessor is right.{left_out}"
        )
        + f'<div class="filter" data-filters="{esc(key)}"><label>filter <input type="search" autocomplete="off" '
        f'placeholder="words in a text or label"></label> <label>kind <select><option value="">all</option>{options}'
        f'</select></label> <span class="count" role="status">{len(shown)} shown</span></div>'
        f'<ol class="flips" id="{esc(key)}" tabindex="0" aria-label="flips">{items}</ol>'
    )


def group_labels(
    labels: list[str], matrix: list[list[int]], most: int = MAX_LABELS
) -> tuple[list[str], list[list[int]]]:
    """A confusion matrix of at most `most` rows: beyond that the rarest labels are added up as one."""
    if len(labels) <= most:
        return labels, matrix
    order = sorted(range(len(labels)), key=lambda index: -sum(matrix[index]))
    kept, rest = sorted(order[: most - 1]), set(order[most - 1 :])
    groups = [[index] for index in kept] + [sorted(rest)]
    summed = [[sum(matrix[a][b] for a in rows for b in columns) for columns in groups] for rows in groups]
    return [*(labels[index] for index in kept), f"{len(rest)} others"], summed


def _agreement(found: dict) -> str:
    cells = found.get("cells")
    if not cells:
        return ""
    total = found.get("examples") or sum(cells.values())
    return paragraph(
        f"The models agree on {share(found.get('agreement'))} of {total:,} dev examples; "
        f"Cohen's kappa is {number(found.get('kappa'), 3)}."
    ) + count_cells(cells, "examples", total)


def _confusions(found: dict) -> list[Chart]:
    matrices, labels = found.get("confusion") or {}, [str(label) for label in found.get("labels", [])]
    charts: list[Chart] = []
    for model in PAIR:
        if model in matrices and labels:
            names, matrix = group_labels(labels, matrices[model])
            charts.append(
                HeatMap(
                    f"Confusion of the {model}",
                    names,
                    names,
                    values=[[value / (sum(row) or 1) for value in row] for row in matrix],
                    x_label="predicted label",
                    y_label="true label",
                    scale="share of the true label",
                    high=1.0,
                    texts=[[str(value) for value in row] for row in matrix],
                    note="Numbers of examples; the stronger the colour, the larger the share of the true label.",
                )
            )
    return charts


def _calibration(models: dict) -> list[Chart]:
    series = []
    for name in PAIR:
        bins = [one for one in (models.get(name) or {}).get("bins", []) if one.get("count")]
        if bins:
            tips = [
                f"{name}: {share(one['accuracy'])} right where it is {share(one['confidence'])} sure, {one['count']} examples"
                for one in bins
            ]
            points = [(one["confidence"], one["accuracy"]) for one in bins]
            series.append(Series(f"{name}, ECE {number(models[name].get('ece'), 3)}", points, name, tips=tips))
    x = Axis("confidence, mean of a bin", high=1.0, show=_percent)
    y = Axis("share right", low=0.0, high=1.0, show=_percent)
    note = "On the dotted line a model is right as often as it is sure. ECE: expected calibration error."
    return [Lines("Calibration", series, x, y, diagonal=True, note=note)] if series else []


def _percent(value: float) -> str:
    return f"{value:.3g}" if not 0 <= value <= 1 else f"{100 * value:.3g}%"


def _by_class(found: dict) -> list[Chart]:
    rows = sorted((one for one in found.get("by_class") or [] if one.get("count")), key=lambda one: -one["count"])
    names = [f"{one['label']} ({one['count']})" for one in rows]
    title = "Right by class" if len(rows) <= MAX_LABELS else f"Right by class, the {MAX_LABELS} commonest"
    label = "share right, by true label (number of examples)"
    return _pair_bars(title, names[:MAX_LABELS], rows[:MAX_LABELS], label)


def _by_length(found: dict) -> list[Chart]:
    rows = [one for one in found.get("by_length") or [] if one.get("count")]
    names = [f"{one['low']}–{one['high']} ({one['count']})" for one in rows]
    return _pair_bars("Right by length", names, rows, "share right, by tokens in the text (examples)")


def _pair_bars(title: str, names: list[str], rows: list[dict], label: str) -> list[Chart]:
    bars = [Bars(name, [one.get(name) for one in rows], name) for name in PAIR]
    return [BarChart(title, names, bars, Axis(label, low=0.0, high=1.0, show=_percent))] if rows else []


def _kinds(found: dict) -> list[Chart]:
    """A chart for each side: the share of every kind among the errors of both models."""
    rows = (found.get("classes") or {}).get("rows") or []
    charts: list[Chart] = []
    for side in dict.fromkeys(str(one["side"]) for one in rows):
        here = [one for one in rows if str(one["side"]) == side]
        bars = [
            Bars(model, [one[key]["share"] for one in here], model, [_interval(one[key]) for one in here])
            for model, key in zip(PAIR, ("before", "after"), strict=True)
        ]
        axis = Axis(f"share of the {side}, with its interval", low=0.0, show=_percent)
        charts.append(BarChart(f"Kinds of error: {side}", [str(one["name"]) for one in here], bars, axis))
    return charts


def _all_classes(found: dict) -> str:
    """A table of all classes where the chart shows only the commonest."""
    rows = found.get("by_class") or []
    if len(rows) <= MAX_LABELS:
        return ""
    columns = [Column("label", "label"), Column("examples", "count", str), *(Column(one, one, share) for one in PAIR)]
    caption = "Share right by true label"
    return fold(f"All {len(rows)} classes", table(caption, columns, rows, key="by-class"))


def _classes(found: dict, key: str, title: str) -> str:
    classes = found.get(key) or {}
    rows = classes.get("rows") or []
    if not rows:
        return ""
    columns = [Column("kind", "name"), Column("side", "side")]
    columns += [Column(key, key, share) for key in ("before", "after", "difference")]
    columns += [Column("interval", "interval"), Column("stable", "stable")]
    margin = classes.get("margin")
    meaning = f"; stable: the whole interval of the difference is within ±{share(margin)}" if is_number(margin) else ""
    rules = "; ".join(f"{one['name']}: {one['rule']}" for one in classes.get("rules") or [])
    return table(
        f"{title}, before and after{meaning}", columns, [_kind_row(one) for one in rows], key=key.replace("_", "-")
    ) + (paragraph(f"Rules: {rules}.", "note") if rules else "")


def _interval(one: dict) -> tuple[float, float] | None:
    return (one["low"], one["high"]) if is_number(one.get("low")) and is_number(one.get("high")) else None


def _kind_row(one: dict) -> dict[str, Any]:
    """What the table shows of a kind of error: shares with their counts, and the difference with its sign and interval."""
    difference: dict[str, Any] = one.get("difference") or {}
    signed, stable = difference.get("share"), one.get("stable")
    shares = {
        key: TableCell(f"{share(found.get('share'))} ({found.get('count')} of {found.get('of')})", found.get("share"))
        for key, found in ((key, one[key]) for key in ("before", "after"))
    }
    return {
        "name": one["name"],
        "side": one["side"],
        **shares,
        "difference": TableCell(f"{signed:+.1%}" if is_number(signed) else MISSING, signed),
        "interval": f"{share(difference.get('low'))} to {share(difference.get('high'))}",
        "stable": "not shown" if stable is None else "yes" if stable else "no",
    }


def _flip(one: dict) -> str:
    pair = f'<p class="text pair">{esc(cut(one["text_pair"], MAX_TEXT))}</p>' if one.get("text_pair") else ""
    models = "".join(_answer(name, one[name]) for name in PAIR)
    return (
        f'<li data-kind="{esc(one["kind"])}"><p class="text">{esc(cut(one["text"], MAX_TEXT))}</p>{pair}'
        f'<p class="answers"><span class="badge {esc(one["kind"])}">{esc(one["kind"])}</span> '
        f"<span>true: <b>{esc(one['label'])}</b></span>{models}"
        f'<span class="row">row {esc(one.get("row", ""))}</span></p></li>'
    )


def _answer(name: str, answer: dict) -> str:
    sure = answer.get("confidence")
    width = 40 * min(1.0, max(0.0, sure)) if is_number(sure) else 0
    return (
        f'<span class="answer">{name}: <b>{esc(answer["label"])}</b> '
        '<svg class="sure" viewBox="0 0 40 6" aria-hidden="true">'
        f'<rect class="track" width="40" height="6"/><rect class="t-{name}" width="{width:.1f}" height="6"/></svg> '
        f'<span class="confidence">{share(sure)}</span></span>'
    )
