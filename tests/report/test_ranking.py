from plankwise.report.ranking import lead_by_error, lead_by_seeds, lead_by_test, listed


def row(label, median, p=None, difference=None):
    return {"label": label, "median": median, "p": p, "difference": difference}


def test_rows_that_no_test_tells_from_the_baseline_lead_with_it():
    rows = [row("kd", 0.80), row("mine", 0.81, 0.36, 0.01), row("pkd", 0.78, 0.2, -0.02), row("cut", 0.7, 0.001, -0.1)]
    assert lead_by_test(rows) == {0, 1, 2}


def test_rows_shown_to_be_better_than_the_baseline_lead_without_it():
    rows = [row("kd", 0.80), row("mine", 0.85, 0.01, 0.05), row("other", 0.84, 0.02, 0.04), row("pkd", 0.81, 0.4, 0.01)]
    assert lead_by_test(rows) == {1, 2}


def test_equal_medians_lead_together_even_if_nothing_was_tested():
    rows = [row("kd", 0.80), row("mine", 0.80001), row("low", 0.79), row("failed", None)]
    assert lead_by_test(rows) == {0, 1}
    assert lead_by_test([row("failed", None)]) == set()


def test_rows_whose_seeds_overlap_with_the_best_ones_lead():
    scores = [[0.80, 0.84], [0.78, 0.81], [0.70, 0.79], []]
    assert lead_by_seeds(scores, [0.82, 0.795, 0.745, None]) == {0, 1}


def test_one_seed_tells_nothing_apart():
    assert lead_by_seeds([[0.9], [0.5]], [0.9, 0.5]) == {0, 1}
    assert lead_by_seeds([[0.9, 0.92], [0.5]], [0.91, 0.5]) == {0, 1}


def test_what_lies_within_the_error_of_the_best_or_is_shown_as_its_equal_leads():
    assert lead_by_error([0.80, 0.79, 0.70], [0.01, 0.01, 0.01]) == {0, 1}
    assert lead_by_error([2.001, 2.004, 1.9], [None] * 3, places=2) == {0, 1}
    assert lead_by_error([12.0, 11.0, None], [None] * 3, lower=True) == {1}


def test_names_are_listed_as_in_a_sentence():
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(["a", "b", "c", "d"]) == "a, b, c and d"
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
