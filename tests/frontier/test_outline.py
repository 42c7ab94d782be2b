"""Which points are dominated, and which is chosen within a tolerance."""

from plankwise.frontier.outline import choose, mark_frontier


def row(name, cost, score, halves=(1.0, 1.0)):
    return {"name": name, "cost": cost, "score": score, "kept_halves": halves}


def test_a_point_is_on_the_frontier_unless_another_is_as_good_in_both_and_better_in_one():
    rows = [row("slow", 1.0, 0.9), row("same but slower", 1.5, 0.9), row("fast", 0.5, 0.8), row("bad", 0.7, 0.7)]
    assert mark_frontier(rows, "cost") == [True, False, True, False]


def test_equal_points_are_both_on_the_frontier():
    assert mark_frontier([row("one", 1.0, 0.9), row("other", 1.0, 0.9)], "cost") == [True, True]


def test_the_cheapest_point_that_keeps_enough_on_the_first_half_is_chosen_whatever_the_second_says():
    rows = [
        row("whole", 1.0, 0.9),
        row("lucky", 0.2, 0.9, (0.98, 1.0)),
        row("chosen", 0.3, 0.8, (0.995, 0.9)),
        row("slower", 0.5, 0.9, (1.0, 1.0)),
    ]
    assert choose(rows, "cost", 0.01)["name"] == "chosen"
    assert choose(rows, "cost", 0.02)["name"] == "lucky"
    assert choose(rows[1:2], "cost", 0.01) is None


def test_where_halves_have_no_scores_all_of_dev_chooses():
    rows = [{**row("less", 0.2, 0.8, None), "kept": 0.9}, {**row("enough", 0.5, 0.9, None), "kept": 0.995}]
    assert choose(rows, "cost", 0.01)["name"] == "enough"
    assert choose([{**rows[0], "kept": None}], "cost", 0.01) is None
