"""Every kind of page at the width of a desk and of a phone, in light and dark: nothing is cut off, nothing is too small to read."""

import json

import pytest

from plankwise.report.page import write_report

LEAST_TEXT = 11  # pixels
LONG_NAME = "a-name-without-any-blank-" * 4
MEASURE = """() => {
    const edge = document.documentElement.clientWidth, faults = [];
    const tell = (what, one) => faults.push(`${what}: ${one.tagName} ${one.textContent.trim().slice(0, 50)}`);
    const shown = [...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().width > 0);
    for (const one of shown.filter((one) => !one.closest('.sideways'))) {
        const box = one.getBoundingClientRect();
        if (box.right > edge + 0.5 || box.left < -0.5) tell('beyond the edge', one);
        if (!one.closest('svg') && getComputedStyle(one).display !== 'inline' && one.scrollWidth > one.clientWidth + 1)
            tell('wider than its box', one);
    }
    for (const text of document.querySelectorAll('svg.chart text')) {
        const turned = text.getScreenCTM(), scale = Math.hypot(turned.a, turned.b);
        const size = parseFloat(getComputedStyle(text).fontSize) * scale;
        if (text.getBoundingClientRect().width && size < LEAST) tell(`${size.toFixed(1)} pixels high`, text);
    }
    for (const box of document.querySelectorAll('.sideways')) {
        const hint = box.parentElement.querySelector('.hint');
        if (box.scrollWidth > box.clientWidth && !(hint && hint.getBoundingClientRect().height)) tell('no hint', box);
    }
    return faults;
}""".replace("LEAST", str(LEAST_TEXT))


def comparison():
    def row(label, median, **more):
        figures = {"spread": 0.0125, "best": median + 0.01, "retained": median / 0.82, "seconds": 1234.5}
        cost = {"parameters": 109_483_778, "latency_ms": 104.56, "speedup": 1.94}
        return {"label": label, "median": median, **figures, **cost, "verdict": "best baseline", **more}

    rows = [
        row("predecessor", 0.82, verdict=""),
        row("finetune", 0.8, difference=-0.01, p=0.012, verdict="worse than kd (p = 0.012)"),
        row("kd", 0.81),
        row("replacing+kd with alpha 0.5", 0.815, difference=0.005, p=0.36, verdict="no difference shown (p = 0.36)"),
        {"label": LONG_NAME, "median": None, "verdict": "failed", "failure": "seed 0 failed: out of memory"},
    ]
    cells = [{"label": one["label"], "seed": seed, "score": 0.8 + seed / 100} for one in rows[1:4] for seed in range(3)]
    task = {"name": "reviews/sentences", "score": ["accuracy", "f1"], "baseline": "kd", "rows": rows, "cells": cells}
    macro = [{"label": one["label"], "macro": one["median"], "retained": 0.97} for one in rows]
    return {"tasks": [task, {**task, "name": LONG_NAME}], "macro": macro, "seeds": [0, 1, 2]}


def study():
    arms = [
        {
            "name": f"replacing at an equivalent learning rate, {rate}",
            "median": 0.8 + rate / 100,
            "difference": rate / 100 - 0.02,
            "cells": [{"seed": seed, "score": 0.79 + seed / 100} for seed in range(3)],
        }
        for rate in (0.1, 0.3, 0.5, 0.7, 0.9)
    ]
    baseline = {"name": "predecessor", "score": 0.82}
    task = {"task": "rte", "metric": "accuracy and f1", "baseline": baseline, "arms": arms, "notes": ["a note"]}
    names = ("CoLA", "MNLI", "MRPC", "QNLI", "QQP", "RTE", "SST-2", "STS-B", "macro")
    published = {"source": "a paper", "setting": "BERT-base", "columns": names, "remark": "a remark", "places": 1}
    published["rows"] = {f"row {index}": [60.0 + index] * len(names) for index in range(4)}
    return {"study": "rate", "seeds": [0, 1, 2], "tasks": [task], "published": published}


def domain():
    names = ("plain", "plain-compressed", "domain", "domain-compressed")
    figures = {"retained": 0.987, "seconds_to_best": 4321.0, "speedup_of_tuning": 1.7, "parameters": 109_483_778}
    rows = [
        {
            "name": name,
            "scores": [0.8, 0.81, 0.83],
            "perplexity": 1234.56,
            **figures,
            "latency_ms": 104.5,
            "speedup": 1.9,
            "failures": {},
        }
        for name in names
    ]
    rows[3]["failures"] = {"2": "loss is not a number"}
    return {"task": "reviews", "score": ["accuracy"], "domain": "runs/d", "seeds": [0, 1, 2], "rows": rows}


@pytest.fixture
def folders_of(save, records, tmp_path):
    """The folders that a kind of page is made of, with long names and many metrics in them."""

    def analysed(name="run", **more):
        record = records.analysed(12)
        metrics = ("matthews", "cohen_kappa", "macro_f1_of_all_classes", "roc_auc", "precision", "recall")
        for model in ("predecessor", "truncated", "successor"):
            record[model]["metrics"] |= dict.fromkeys(metrics, 0.0)
        phases = {"replacing": {"estimated": 120.0, "measured": 133.4}}
        record["estimate"] = {"phases": phases, "seconds": {"estimated": 120.0, "measured": 133.4}}
        record["config"]["run"]["name"] = name
        return save(record | more, name)

    def table(data):
        (tmp_path / "table.json").write_text(json.dumps(data), "utf-8")
        return [tmp_path]

    def other_task():
        record = records.tagged(records.plain())
        record["config"]["run"]["name"] = "names"
        return save(record, "names")

    def long_plan():
        plan = [{"path": "bert.encoder.layer", "span": [2 * i, 2 * i + 1], "part": "layers"} for i in range(12)]
        return analysed("deep", plan=plan)

    kinds = {
        "run": lambda: [analysed()],
        "deep run": lambda: [long_plan()],
        "several runs": lambda: [analysed(LONG_NAME), analysed("two"), other_task()],
        "comparison": lambda: table(comparison()),
        "study": lambda: table(study()),
        "domain": lambda: table(domain()),
    }
    return lambda kind: kinds[kind]()


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("kind", ["run", "deep run", "several runs", "comparison", "study", "domain"])
def test_nothing_is_cut_off_or_too_small_to_read(visit, folders_of, tmp_path, kind, width):
    page = visit(write_report(folders_of(kind), tmp_path / "report.html"), width=width)
    page.tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for theme in ("light", "dark"):
        page.tab.emulate_media(color_scheme=theme)
        assert page.tab.evaluate("document.documentElement.scrollWidth") == width
        faults = page.tab.evaluate(MEASURE)
        assert not faults, "\n".join(faults)
    assert page.complaints == []


CONTRAST = """() => {
    const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const light = (colour) => {
        const [r, g, b] = colour.map((v) => v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (one) => {
        const colour = numbers(getComputedStyle(one).backgroundColor);
        return colour.length < 4 || colour[3] > 0 || !one.parentElement ? colour.slice(0, 3) : behind(one.parentElement);
    };
    const field = (text) => { let one = text; while (one && !one.matches('rect')) one = one.previousElementSibling; return one; };
    const faults = [];
    for (const one of document.querySelectorAll('main *')) {
        const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!own || !one.getBoundingClientRect().width) continue;
        const style = getComputedStyle(one), ink = numbers(one.closest('svg') ? style.fill : style.color).slice(0, 3);
        let paper = behind(one);
        if (one.matches('text.cell')) {
            const fill = getComputedStyle(field(one)), share = parseFloat(fill.fillOpacity);
            paper = paper.map((value, index) => value * (1 - share) + numbers(fill.fill)[index] * share);
        }
        const [dark, bright] = [light(ink), light(paper)].sort((a, b) => a - b), ratio = (bright + 0.05) / (dark + 0.05);
        if (ratio < 4.5) faults.push(`${ratio.toFixed(2)}: ${one.tagName} ${one.textContent.slice(0, 40)}`);
    }
    return faults;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(visit, folders_of, tmp_path, theme):
    tab = visit(write_report(folders_of("run"), tmp_path / "report.html"), color_scheme=theme).tab
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    faults = tab.evaluate(CONTRAST)
    assert not faults, "\n".join(faults)


def test_a_stacked_table_names_each_value_and_still_sorts(visit, folders_of, tmp_path):
    tab = visit(write_report(folders_of("comparison"), tmp_path / "report.html"), width=390).tab
    rows = tab.locator("[data-table=comparison]").first
    names = rows.locator("tbody td").first.evaluate("(one) => getComputedStyle(one, '::before').content")
    assert names == '"median"'
    rows.locator("thead button", has_text="median").click()
    assert rows.locator("tbody th").first.inner_text() == "predecessor"
    rows.locator("thead button", has_text="median").click()
    assert rows.locator("tbody th").first.inner_text() == "finetune"
