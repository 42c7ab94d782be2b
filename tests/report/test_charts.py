import itertools
import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plankwise.report._axes import limits, ticks
from plankwise.report._svg import draw, place_names, show
from plankwise.report.charts import Axis, BarChart, Bars, Dot, HeatMap, Lines, Paths, Scatter, Series, thin
from plankwise.report.plots import write_plot

NASTY = "<script>window.pwned=1</script>\"'&"


def numbers_of(svg, tag, *names):
    return [tuple(float(one.get(name)) for name in names) for one in ET.fromstring(svg).iter(tag) if one.get("class")]


def texts_of(svg):
    return ["".join(one.itertext()) for one in ET.fromstring(svg).iter("text")]


def tips_of(svg):
    return [one.text for one in ET.fromstring(svg).iter("title")]


def every_kind(text):
    """One chart of each kind with this text wherever a chart has one."""
    axes = Axis(text), Axis(text)
    series = [Series(text, [(0, 1.0), (1, 2.0)], "a", tips=[text, text], spread=[0.1, 0.2])]
    named = Series(text, [(0, 1.0), (1, 2.0)], "a", singles=[(0, 1.0)])
    return [
        Lines(text, series, *axes, diagonal=True, note=text),
        Lines(text, [named], Axis(text, places=[text, text]), Axis(text), joined=False, baseline=(text, 1.0)),
        BarChart(text, [text], [Bars(text, [1.0], "a", [(0.5, 1.5)])], Axis(text), note=text),
        BarChart(text, [text], [Bars(text, [1.0], "a"), Bars(text, [2.0], "b")], Axis(text), stacked=True),
        BarChart(text, [text], [Bars(text, [1.0], "a", [None])], Axis(text), dots=True),
        HeatMap(text, [text], [text], [[1.0]], text, text, text, note=text),
        Scatter(text, [Dot(text, 1.0, 1.0, "a", text, text)], *axes),
        Paths(text, series, *axes),
    ]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_few_evenly_spaced_and_within_the_limits(low, width):
    found = ticks(low, low + width)
    assert 1 <= len(found) <= 6
    slack = 1e-6 * (abs(low) + width)
    assert all(low - slack <= tick <= low + width + slack for tick in found)
    gaps = [b - a for a, b in itertools.pairwise(found)]
    assert all(math.isclose(gap, gaps[0], rel_tol=1e-6) for gap in gaps)


def test_ticks_are_round():
    assert ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(0.71, 0.79) == [0.72, 0.74, 0.76, 0.78]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_limits_hold_all_values_and_are_never_empty(values):
    low, high = limits(values, Axis("x"))
    assert low < high
    slack = 1e-6 * (abs(low) + abs(high))
    assert low - slack <= min(values)
    assert max(values) <= high + slack


def test_a_line_rises_with_its_values_and_carries_them():
    svg = draw(Lines("t", [Series("loss", [(0, 1.0), (10, 2.0), (20, 4.0)], "a")], Axis("step"), Axis("loss (nats)")))
    dots = numbers_of(svg, "circle", "cx", "cy")
    assert dots == sorted(dots)
    assert [y for _, y in dots] == sorted((y for _, y in dots), reverse=True)
    assert tips_of(svg) == ["loss: 1 at step 0", "loss: 2 at step 10", "loss: 4 at step 20"]
    assert {"step", "loss (nats)"} <= set(texts_of(svg))


def test_batch_sizes_are_spaced_by_powers_of_two():
    series = Series("ms", [(1, 5.0), (2, 6.0), (4, 7.0), (8, 9.0)], "a", spread=[1.0, 1.0, 1.0, 1.0])
    svg = draw(Lines("t", [series], Axis("batch", log2=True), Axis("ms", low=0)))
    xs = [x for x, _ in numbers_of(svg, "circle", "cx", "cy")]
    gaps = [b - a for a, b in itertools.pairwise(xs)]
    assert max(gaps) - min(gaps) < 0.2
    assert svg.count('class="whisker"') == 4
    assert tips_of(svg)[0] == "ms: 5 ± 1 at batch 1"


def test_values_that_are_not_numbers_are_not_drawn():
    points = [(1, 1.0), (2, math.nan), (3, math.inf), (4, 2.0)]
    svg = draw(Lines("t", [Series("a", points, "a")], Axis("x"), Axis("y")))
    assert len(numbers_of(svg, "circle", "cx", "cy")) == 2
    assert "nan" not in svg
    assert "inf" not in svg


def test_a_series_of_nothing_gives_an_empty_chart():
    assert "circle" not in draw(Lines("t", [Series("a", [], "a")], Axis("x"), Axis("y")))


def test_bars_are_as_long_as_their_values():
    bars = [Bars("a", [1.0, 2.0], "a"), Bars("b", [4.0, None], "b")]
    svg = draw(BarChart("t", ["one", "two"], bars, Axis("MB")))
    lengths = [width for (width,) in numbers_of(svg, "rect", "width")]
    assert lengths == pytest.approx([lengths[0], 4 * lengths[0], 2 * lengths[0]], rel=0.02)
    assert "MB" in texts_of(svg)


def test_stacked_bars_begin_where_the_last_one_ends():
    svg = draw(BarChart("t", ["g"], [Bars("a", [3.0], "a"), Bars("b", [5.0], "b")], Axis("n"), stacked=True))
    (x, width), (next_x, _) = numbers_of(svg, "rect", "x", "width")
    assert x + width == pytest.approx(next_x, abs=0.2)


def test_dots_need_no_zero_and_bars_do():
    bars = [Bars("", [0.81, 0.82], "a", [(0.80, 0.82), None])]
    assert "0" not in texts_of(draw(BarChart("t", ["g", "h"], bars, Axis("score"), dots=True)))
    assert "0" in texts_of(draw(BarChart("t", ["g", "h"], bars, Axis("score"))))


def test_a_heat_map_is_stronger_the_higher_and_shows_its_numbers():
    svg = draw(HeatMap("t", ["r"], ["a", "b", "c"], [[0.0, 0.5, 1.0]], "x", "y", "share", lambda v: f"{v:.2f}"))
    strengths = [float(value) for value in re.findall(r'fill-opacity="([\d.]+)"', svg)]
    assert strengths == sorted(strengths)
    assert {"0.00", "0.50", "1.00", "x", "y"} <= set(texts_of(svg))
    assert tips_of(svg)[1] == "r × b: 0.50"


def test_a_wide_heat_map_leaves_out_labels_that_would_overlap():
    columns = [str(10 * index) for index in range(40)]
    svg = draw(HeatMap("t", ["r"], columns, [[0.5] * 40], "step", "slot", "share", numbers=False))
    shown = [text for text in texts_of(svg) if text.isdigit()]
    assert 5 <= len(shown) <= 14
    assert svg.count("fill-opacity") == 40


def test_names_never_cover_each_other():
    found = place_names([("alpha", 100, 100), ("beta", 102, 104), ("gamma", 100, 140)])
    assert [re.sub("<.*?>", "", text) for text in found] == ["alpha", "gamma"]


def test_long_series_are_thinned_and_keep_their_ends():
    found = thin(list(range(10_000)))
    assert len(found) == 200
    assert (found[0], found[-1]) == (0, 9999)


def test_single_measurements_places_and_a_baseline_are_drawn():
    series = Series("median", [(0, 0.5), (1, 0.7)], "a", singles=[(0, 0.4), (0, 0.6), (1, 0.7)])
    chart = Lines(
        "t", [series], Axis("arm", places=["good", "bad"]), Axis("score"), joined=False, baseline=("before", 0.9)
    )
    svg = draw(chart)
    assert svg.count('class="single') == 3
    assert "polyline" not in svg
    assert {"good", "bad"} <= set(texts_of(svg))
    assert tips_of(svg) == ["before: 0.9", "median: 0.5 at arm good", "median: 0.7 at arm bad"]


def test_an_axis_has_its_labels_where_it_says():
    series = Series("a", [(3, 1.0), (4, 2.0), (6, 3.0)], "a")
    texts = texts_of(draw(Lines("t", [series], Axis("layers", ticks=[3, 4, 6]), Axis("y", low=0, high=10))))
    assert {"3", "4", "6"} <= set(texts)
    assert "5" not in texts


def test_the_legend_names_what_has_a_name_and_each_group_once():
    axes = Axis("x"), Axis("y")
    assert BarChart("t", ["g"], [Bars("", [1.0], "a"), Bars("b", [1.0], "b")], Axis("n")).legend == [("b", "b")]
    dots = [Dot("one", 1, 1, "a", "kd"), Dot("two", 2, 2, "b", "pkd"), Dot("three", 3, 3, "a", "kd")]
    assert Scatter("t", dots, *axes).legend == [("kd", "a"), ("pkd", "b")]
    shown = show(Lines("t", [Series("loss", [(0, 1.0)], "a")], *axes, note="a note"))
    assert shown.count('class="key"') == 1
    assert '<p class="note">a note</p>' in shown


def test_every_chart_escapes_every_text():
    for chart in every_kind(NASTY):
        svg = draw(chart)
        root = ET.fromstring(svg)
        assert root.get("aria-label").startswith(NASTY)
        assert not list(root.iter("script"))
        assert "<script" not in svg
        assert "<script" not in show(chart)


def test_every_chart_is_drawn_as_a_file_with_every_text_as_it_stands(tmp_path):
    for index, chart in enumerate(every_kind(r"$\frac{a}$ & <b>")):
        paths = write_plot([chart, chart], tmp_path, f"plot-{index}")
        assert [path.name for path in paths] == [f"plot-{index}.png", f"plot-{index}.svg"]
        texts = ["".join(one.itertext()) for one in ET.parse(paths[1]).iter("{http://www.w3.org/2000/svg}text")]
        assert texts.count(r"$\frac{a}$ & <b>") >= 4, "a title and a label in each of the two panels"


def test_one_chart_alone_has_its_title_only_if_asked_for(tmp_path):
    chart = Lines("the title", [Series("a", [(0, 1.0), (1, 2.0)], "a")], Axis("x"), Axis("y"))
    for titled in (False, True):
        write_plot([chart], tmp_path, "plot", titled=titled)
        assert ("the title" in (tmp_path / "plot.svg").read_text("utf-8")) == titled
