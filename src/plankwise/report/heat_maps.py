"""A study with two axes as heat maps: a field for each median, one map a series."""

import math
from typing import Any

from plankwise.report.charts import Chart, HeatMap
from plankwise.report.text import is_number, number


def draw_heat_maps(task: dict[str, Any], axis: dict[str, Any], title: str) -> list[Chart]:
    """The maps of one task of a study's table; all have the same colours, from the lowest median to the highest."""
    known = [arm["median"] for arm in task["arms"] if is_number(arm["median"])]
    maps: list[Chart] = []
    for series in dict.fromkeys(arm["series"] for arm in task["arms"]):
        arms = [arm for arm in task["arms"] if arm["series"] == series]
        rows, columns = (list(dict.fromkeys(arm[key] for arm in arms)) for key in ("row", "at"))
        medians = {(arm["row"], arm["at"]): arm["median"] for arm in arms if is_number(arm["median"])}
        maps.append(
            HeatMap(
                ", ".join(filter(None, (title, series))),
                rows,
                columns,
                [[medians.get((row, column), math.nan) for column in columns] for row in rows],
                x_label=axis["name"],
                y_label=axis["rows"],
                scale=f"{task['metric']} on dev",
                show=number,
                high=max(known, default=1.0),
                low=min(known, default=0.0),
                note="Medians of the seeds; the darker, the higher. Colours go from the lowest median of all maps to the highest.",
            )
        )
    return maps
