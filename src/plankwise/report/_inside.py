"""Inside the models: how alike their layers are, how tokens move through them, what each slot costs alone."""

from plankwise.report._axes import Axis
from plankwise.report._html import figure, grid, paragraph
from plankwise.report._text import cut, is_number, number
from plankwise.report.charts import Bars, Series, bar_chart, heat_map, path_chart

TONES = ("a", "b", "c", "d", "e", "f", "g", "h")
MAX_TOKENS = 16


def inside(record: dict) -> str:
    """The charts of the analysis of the insides; empty without one."""
    found = record.get("analysis", {}).get("inside") or {}
    return grid(
        _cka(found.get("cka") or {}), _impact(found.get("impact") or {}), *_paths(found.get("paths") or {})
    ) + _sentence(found)


def short_layers(names: list[str]) -> list[str]:
    """Layers' names without the model's name in front."""
    return [name.split(": ", 1)[-1] for name in names]


def drops_of(record: dict) -> list[float] | None:
    """What each of the plan's slots costs alone; None if that was not measured for all of them."""
    slots = ((record.get("analysis", {}).get("inside") or {}).get("impact") or {}).get("slots") or []
    drops = [one.get("drop") for one in slots]
    return drops if len(drops) == len(record.get("plan", [])) and all(map(is_number, drops)) else None


def path_series(paths: dict, model: str) -> list[Series]:
    """One way a token, from the first layer to the last."""
    layers, tokens = paths[model], paths["tokens"]
    return [
        Series(
            token,
            [tuple(layer[index]) for layer in layers],
            TONES[index % len(TONES)],
            tips=[
                f"{token} (token {index + 1}) after {f'block {depth}' if depth else 'the embeddings'}"
                for depth in range(len(layers))
            ],
        )
        for index, token in enumerate(tokens[:MAX_TOKENS])
    ]


def path_limits(paths: dict) -> list[tuple[float, float]]:
    """The least and the greatest of each coordinate over both models, so that the two charts compare."""
    points = [
        point
        for model in ("predecessor", "successor")
        for layer in paths.get(model, [])
        for point in layer[:MAX_TOKENS]
    ]
    found = []
    for axis in (0, 1):
        values = [point[axis] for point in points if is_number(point[axis])] or [0.0, 1.0]
        pad = 0.06 * ((max(values) - min(values)) or 1.0)
        found.append((min(values) - pad, max(values) + pad))
    return found


def _cka(cka: dict) -> str:
    if not cka.get("values"):
        return ""
    title = "How alike the layers are (linear CKA)"
    rows, columns = short_layers(cka["rows"]), short_layers(cka["columns"])
    chart = heat_map(
        title,
        rows,
        columns,
        cka["values"],
        "successor's layers",
        "predecessor's layers",
        show=lambda v: f"{v:.2f}",
        high=1.0,
    )
    return figure(title, chart, note=f"1: the same up to rotation and scale; over {cka.get('tokens', 0):,} tokens.")


def _impact(impact: dict) -> str:
    slots = impact.get("slots") or []
    if not slots:
        return ""
    title = "What each successor costs alone"
    names = [f"{index + 1}: {str(one['slot']).rpartition('.')[2]}" for index, one in enumerate(slots)]
    label = "drop of the score with this slot alone replaced"
    chart = bar_chart(title, names, [Bars("", [one.get("drop") for one in slots], "successor")], Axis(label))
    note = f"Predecessor {number(impact.get('baseline'))}, all slots replaced {number(impact.get('all'))}."
    return figure(title, chart, note=note)


def _paths(paths: dict) -> list[str]:
    if not paths.get("tokens"):
        return []
    (left, right), (low, high) = path_limits(paths)
    charts = []
    for model in ("predecessor", "successor"):
        if paths.get(model):
            title = f"Tokens on their way through the {model}"
            axes = Axis("first principal component", left, right), Axis("second principal component", low, high)
            charts.append(
                figure(
                    title,
                    path_chart(title, path_series(paths, model), *axes),
                    note="From the ring (embeddings) to the dot (last block).",
                )
            )
    return charts


def _sentence(found: dict) -> str:
    paths = found.get("paths") or {}
    if not paths.get("tokens"):
        return ""
    more = (
        f"; the first {MAX_TOKENS} of {len(paths['tokens'])} tokens are drawn"
        if len(paths["tokens"]) > MAX_TOKENS
        else ""
    )
    return paragraph(f"The sentence: {cut(paths.get('sentence', ''), 400)}{more}", "note")
