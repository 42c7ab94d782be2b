import xml.etree.ElementTree as ET

from plankwise.report.ship import draw_ships


def planks(svg, kind):
    found = [one for one in ET.fromstring(svg).iter("rect") if kind in one.get("class", "").split()]
    return [(float(one.get("x")), float(one.get("width")), one.find("title").text) for one in found]


def slot(*span, path="bert.encoder.layer"):
    return {"path": path, "span": list(span), "part": "layers"}


def test_each_successor_lies_below_the_planks_that_it_replaced():
    (svg,) = draw_ships([slot(0, 1), slot(2, 3, 4)])
    old, new = planks(svg, "old"), planks(svg, "new")
    assert len(old) == 5
    assert [x for x, _, _ in new] == [old[0][0], old[2][0]]
    assert new[1][1] > new[0][1]
    assert new[0][2] == "successor 1 (layers) replaced bert.encoder.layer 0–1"
    assert "bert.encoder.layer: 5 → 2" in svg


def test_planks_in_no_slot_are_kept_in_both_rows():
    (svg,) = draw_ships([slot(1, 2), slot(4, 5)])
    kept = [tip for _, _, tip in planks(svg, "kept")]
    assert kept.count("bert.encoder.layer 3: kept as it is") == 1
    assert len(kept) == 4
    assert "6 → 4" in svg


def test_each_chain_has_its_own_side_and_modules_share_one():
    plan = [slot(0, 1, path="encoder.block"), slot(0, 1, path="decoder.block"), slot(path="pooler"), slot(path="a.<b>")]
    ships = draw_ships(plan, [0.1, 0.2, 0.3, 0.4])
    assert len(ships) == 3
    assert planks(ships[1], "new")[0][2].endswith("decoder.block 0–1; alone it costs 0.2000")
    assert planks(ships[2], "new")[1][2] == "successor 2 (layers) replaced a.<b>; alone it costs 0.4000"


def test_two_sides_on_a_page_do_not_share_an_id():
    ids = {ET.fromstring(svg).find(".//clipPath").get("id") for key in "ab" for svg in draw_ships([slot(0)], key=key)}
    assert len(ids) == 2


def test_a_long_chain_is_drawn_as_several_sides_that_divide_no_span():
    (html,) = draw_ships([slot(3 * index, 3 * index + 1, 3 * index + 2) for index in range(8)])
    sides = list(ET.fromstring(html).iter("svg"))
    assert [len(planks(ET.tostring(side), "old")) for side in sides] == [12, 12]
    assert [len(planks(ET.tostring(side), "new")) for side in sides] == [4, 4]
    assert "bert.encoder.layer: 24 → 8" in html


def test_one_span_that_is_wider_than_a_screen_scrolls_in_its_own_box_and_says_so():
    (short,), (long,) = draw_ships([slot(0, 1)]), draw_ships([slot(*range(24))])
    assert 'class="hint"' not in short
    assert ET.fromstring(long).find("./div[@class='sideways']/svg").get("class") == "chart ship long"
    assert 'class="hint"' in long
