"""The page in Debian's Chromium: what a reader sees and does."""

import json
import re

import pytest

from plankwise.report.page import MAX_BYTES, write_report

ATTACK = "<script>window.pwned = 1</script><img src=x onerror='window.pwned=2'>"


@pytest.fixture
def open_page(visit, save, tmp_path):
    """Writes the page on the records and opens it."""

    def open_page(*records, **how):
        folders = [save(record, f"run-{index}") for index, record in enumerate(records)]
        return visit(write_report(folders, tmp_path / "report.html"), **how)

    return open_page


def column(tab, table, index):
    return tab.locator(f"[data-table={table}] tbody tr > :nth-child({index})").all_inner_texts()


def background(tab):
    return tab.evaluate("getComputedStyle(document.body).backgroundColor")


def test_the_values_on_the_page_are_the_records(open_page, records):
    record = records.analysed()
    page = open_page(record)
    tab = page.tab
    assert tab.locator(".verdict").inner_text().startswith("The successor is 1.3 times smaller and 1.8 times faster")
    tiles = tab.locator(".tile strong").all_inner_texts()
    assert tiles == [
        f"{record['compression_ratio']:.2f}×",
        f"{record['speedup']:.2f}×",
        f"{record['retained']:.1%}",
        f"{record['seconds'] / 60:.1f} min",
    ]
    assert column(tab, "models", 4) == [
        f"{record[name]['score']:.4f}" for name in ("predecessor", "truncated", "successor")
    ]
    cells = tab.locator("[data-table=cells] tbody td:nth-child(2)").all_inner_texts()
    assert list(map(int, cells)) == list(record["analysis"]["errors"]["cells"].values())
    assert (
        tab.locator("ol.flips li").first.inner_text().split("\n")[0] == record["analysis"]["errors"]["flips"][0]["text"]
    )
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []


def test_hovering_a_mark_shows_its_value(open_page, records):
    record = records.analysed()
    tab = open_page(record).tab
    chart = tab.locator("[data-section=cost] svg.chart").first
    mark = chart.locator(".mark").nth(5)
    mark.scroll_into_view_if_needed()
    mark.hover()
    tab.wait_for_function("!document.getElementById('tip').hidden")
    last = record["analysis"]["cost"]["latency"]["predecessor"]["32"]
    assert tab.locator("#tip").inner_text() == (
        f"predecessor: {last['mean_ms']:g} ± {last['std_ms']:g} at texts in a batch 32"
    )


def test_the_keyboard_alone_reaches_the_values(open_page, records):
    tab = open_page(records.analysed()).tab
    tab.locator("[data-section=cost] svg.chart").first.focus()
    tab.keyboard.press("ArrowRight")
    assert tab.locator("#tip").inner_text().endswith("at texts in a batch 2")
    tab.keyboard.press("End")
    assert tab.locator("#tip").inner_text().startswith("successor: ")
    tab.keyboard.press("Escape")
    assert tab.locator("#tip").is_hidden()


def test_a_columns_head_sorts_by_number_and_back(open_page, records):
    runs = []
    for name, seconds, share in (("nine", 9.0, 0.99), ("hundred", 100.0, None), ("thousand", 1000.0, 0.95)):
        record = records.plain() | {"seconds": seconds, "retained": share}
        record["config"]["run"]["name"] = name
        runs.append(record)
    page = open_page(*runs)
    head = page.tab.locator("[data-table=runs] thead th", has_text="seconds")
    head.locator("button").click()
    assert column(page.tab, "runs", 1) == ["thousand", "hundred", "nine"]
    assert head.get_attribute("aria-sort") == "descending"
    head.locator("button").focus()
    page.tab.keyboard.press("Enter")
    assert column(page.tab, "runs", 1) == ["nine", "hundred", "thousand"]
    assert head.get_attribute("aria-sort") == "ascending"
    kept = page.tab.locator("[data-table=runs] thead th", has_text="retained").locator("button")
    for _ in range(2):
        kept.click()
        assert column(page.tab, "runs", 1)[-1] == "hundred", "what is missing comes last, whichever way"
    page.tab.locator("[data-table=runs] thead th", has_text="name").locator("button").click()
    assert column(page.tab, "runs", 1) == ["hundred", "nine", "thousand"]
    assert page.complaints == []


def test_runs_are_folded_and_open(open_page, records):
    tab = open_page(records.plain(), records.plain()).tab
    inside = tab.locator("article.run .tiles").first
    assert inside.is_hidden()
    tab.locator("article.run summary").first.click()
    assert inside.is_visible()


def test_the_filter_hides_flips_by_word_and_by_kind(open_page, records):
    page = open_page(records.analysed(30))
    tab, shown = page.tab, page.tab.locator("ol.flips li:visible")
    assert shown.count() == 30
    tab.locator(".filter input").fill("LOVELY number")
    assert shown.count() == 15
    tab.locator(".filter select").select_option("lost")
    assert shown.count() == 5
    assert set(tab.locator("ol.flips li:visible .badge").all_inner_texts()) == {"lost"}
    assert tab.locator(".filter .count").inner_text() == "5 of 30 shown"
    tab.locator(".filter input").fill("no such word")
    assert shown.count() == 0
    tab.locator(".filter input").fill("")
    tab.locator(".filter select").select_option("")
    assert shown.count() == 30
    assert page.complaints == []


def test_the_button_switches_light_and_dark(open_page, records):
    page = open_page(records.plain())
    light = background(page.tab)
    page.tab.locator("#theme").click()
    dark = background(page.tab)
    assert sum(map(int, re.findall(r"\d+", dark))) < 200 < sum(map(int, re.findall(r"\d+", light)))
    page.tab.locator("#theme").click()
    assert background(page.tab) == light
    assert page.complaints == []


def test_a_system_in_dark_gets_a_dark_page_that_prints_light(open_page, records):
    tab = open_page(records.analysed(), color_scheme="dark").tab
    assert background(tab) == "rgb(18, 23, 30)"
    tab.set_viewport_size({"width": 720, "height": 1000})
    tab.emulate_media(media="print")
    assert tab.evaluate("document.documentElement.scrollWidth") == 720
    assert background(tab) == "rgb(255, 255, 255)"


def test_scripts_in_sentences_labels_and_names_do_not_run(visit, save, records, tmp_path):
    text = json.dumps(records.analysed())
    for word in (
        "negative",
        "reviews/sentences",
        "bert.encoder.layer",
        "lovely",
        "runs/demo",
        "negation",
        'embeddings"], "x',
    ):
        text = text.replace(word, json.dumps(ATTACK)[1:-1])
    record = json.loads(text)
    errors = record["analysis"]["errors"]
    errors["flips"] = [
        {**one, "text": f"{ATTACK} & {index}", "text_pair": ATTACK} for index, one in enumerate(errors["flips"])
    ]
    record["config"]["run"]["name"] = ATTACK
    record["analysis"]["inside"]["paths"]["tokens"][0] = ATTACK
    folders = [save(record, "<img src=x onerror=alert(1)>"), save(record, "'\"><svg onload=alert(1)>")]
    for chosen in ([folders[0]], folders):
        page = visit(write_report(chosen, tmp_path / "<script>alert(1)<" / "report.html"))
        page.tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.tab.evaluate("window.pwned") is None
        assert page.tab.locator("main script, main img, [onerror], [onload]").count() == 0
        assert page.tab.locator("ol.flips li .text").first.inner_text() == f"{ATTACK} & 0"
        assert page.complaints == []


def test_a_script_that_were_let_in_would_be_refused(open_page, records):
    page = open_page(records.plain())
    page.tab.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.pwned = 3'; document.body.append(s); }"
    )
    assert page.tab.evaluate("window.pwned") is None
    assert "Content Security Policy" in page.complaints[0]


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_never_scrolls_sideways_and_clips_no_label(open_page, records, width):
    record = records.analysed(40)
    record["config"]["run"]["name"] = "a-name-without-any-blank-" * 8
    record["analysis"]["errors"]["flips"][0]["text"] = "x" * 500
    page = open_page(record, width=width)
    assert page.tab.evaluate("document.documentElement.scrollWidth") == width
    outside = page.tab.evaluate(
        """() => [...document.querySelectorAll('figure svg.chart text')].filter((text) => {
            const box = text.getBoundingClientRect(), frame = text.closest('figure').getBoundingClientRect();
            return box.left < frame.left || box.right > frame.right || box.bottom > frame.bottom;
        }).map((text) => text.textContent)"""
    )
    assert outside == []


def test_tick_labels_do_not_overlap(open_page, records):
    tab = open_page(records.analysed(), width=390).tab
    clashes = tab.evaluate(
        """() => [...document.querySelectorAll('figure svg.chart')].flatMap((chart) => {
            const texts = [...chart.querySelectorAll('text:not([transform])')];
            const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
            return boxes.flatMap(([name, a], i) => boxes.slice(i + 1)
                .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
                .map(([other]) => `${chart.getAttribute('aria-label')}: ${name} / ${other}`));
        })"""
    )
    assert clashes == []


def test_a_page_with_500_flips_is_small_and_quick_to_filter(open_page, records, tmp_path):
    page = open_page(records.analysed(500))
    assert (tmp_path / "report.html").stat().st_size < MAX_BYTES
    page.tab.locator(".filter input").fill("number 499")
    assert page.tab.locator("ol.flips li:visible").count() == 1
    assert page.complaints == []


def test_without_scripts_everything_is_there(open_page, records):
    tab = open_page(records.analysed(), java_script_enabled=False).tab
    assert tab.locator("ol.flips li").count() == 12
    assert tab.locator("svg.chart .mark title").count() > 100


def test_every_table_has_a_caption_and_every_chart_a_name(open_page, records):
    tab = open_page(records.analysed()).tab
    assert tab.locator("table").count() == tab.locator("table caption").count() > 4
    assert tab.locator("thead th:not([scope=col]), tbody tr > th:not([scope=row])").count() == 0
    assert tab.locator("svg.chart:not([aria-label])").count() == 0
    assert tab.locator("figure svg.chart text.title").count() >= tab.locator("figure svg.chart").count()
