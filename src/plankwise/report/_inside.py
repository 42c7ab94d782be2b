"""Inside the models: how alike their layers are, how tokens move through them, what each slot costs alone."""

from plankwise.report._html import paragraph
from plankwise.report._svg import show_all
from plankwise.report.charts import TONES, Axis, BarChart, Bars, Chart, Charts, HeatMap, Paths, Series
from plankwise.report.text import cut, is_number, number

MAX_TOKENS = 16
PAIR = ("predecessor", "successor")


def inside(record: dict) -> str:
    """The charts of the analysis of the insides; empty without one."""
    return show_all(inside_charts(record)) + _sentence(_found(record, "paths"))


def inside_charts(record: dict) -> Charts:
    """Similarity of layers, the cost of each slot alone, and the tokens' paths."""
    return {
        "cka": _cka(_found(record, "cka")),
        "impact": _impact(_found(record, "impact")),
        "paths": _paths(_found(record, "paths")),
    }


def drops_of(record: dict) -> list[float] | None:
    """What each of the plan's slots costs alone; None if that was not measured for all of them."""
    drops = [one.get("drop") for one in _found(record, "impact").get("slots") or []]
    return drops if len(drops) == len(record.get("plan", [])) and all(map(is_number, drops)) else None


def _found(record: dict, key: str) -> dict:
    return (record.get("analysis", {}).get("inside") or {}).get(key) or {}


def _cka(cka: dict) -> list[Chart]:
    if not cka.get("values"):
        return []
    # A layer's name without the model's name in front.
    rows, columns = ([name.split(": ", 1)[-1] for name in cka[key]] for key in ("rows", "columns"))
    return [
        HeatMap(
            "How alike the layers are (linear CKA)",
            rows,
            columns,
            cka["values"],
            x_label="successor's layers",
            y_label="predecessor's layers",
            scale="linear CKA",
            show=lambda value: f"{value:.2f}",
            high=1.0,
            note=f"1: the same up to rotation and scale; over {cka.get('tokens', 0):,} tokens.",
        )
    ]


def _impact(impact: dict) -> list[Chart]:
    slots = impact.get("slots") or []
    names = [f"{index + 1}: {str(one['slot']).rpartition('.')[2]}" for index, one in enumerate(slots)]
    bars = [Bars("", [one["drop"] for one in slots], "successor")]
    axis = Axis("drop of the score with this slot alone replaced")
    note = f"Predecessor {number(impact.get('baseline'))}, all slots replaced {number(impact.get('all'))}."
    return [BarChart("What each successor costs alone", names, bars, axis, note=note)] if slots else []


def _paths(paths: dict) -> list[Chart]:
    """A chart for each model, both with the same axes so that they compare."""
    models = [model for model in PAIR if paths.get("tokens") and paths.get(model)]
    points = [point for model in models for layer in paths[model] for point in layer[:MAX_TOKENS]]
    x, y = (
        _axis(f"{name} principal component", [point[index] for point in points])
        for index, name in enumerate(("first", "second"))
    )
    note = "From the ring (embeddings) to the dot (last block)."
    return [
        Paths(f"Tokens on their way through the {model}", _ways(paths["tokens"], paths[model]), x, y, note)
        for model in models
    ]


def _axis(label: str, values: list[float]) -> Axis:
    known = [value for value in values if is_number(value)] or [0.0, 1.0]
    pad = 0.06 * ((max(known) - min(known)) or 1.0)
    return Axis(label, min(known) - pad, max(known) + pad)


def _ways(tokens: list[str], layers: list[list]) -> list[Series]:
    """One way a token, from the first layer to the last."""
    places = ["the embeddings", *(f"block {depth}" for depth in range(1, len(layers)))]
    return [
        Series(
            token,
            [tuple(layer[index]) for layer in layers],
            TONES[index % len(TONES)],
            tips=[f"{token} (token {index + 1}) after {place}" for place in places],
        )
        for index, token in enumerate(tokens[:MAX_TOKENS])
    ]


def _sentence(paths: dict) -> str:
    if not paths.get("tokens"):
        return ""
    count = len(paths["tokens"])
    more = f"; the first {MAX_TOKENS} of {count} tokens are drawn" if count > MAX_TOKENS else ""
    return paragraph(f"The sentence: {cut(paths.get('sentence', ''), 400)}{more}", "note")
