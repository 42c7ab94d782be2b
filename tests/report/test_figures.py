import importlib.util

import pytest

from plankwise.errors import MissingExtraError, RunError
from plankwise.report.figures import write_figures

WHOLE = {
    "loss", "score", "replacing-rate", "masks", "latency", "speed-up", "tokens-per-second", "calibration",
    "right-by-length", "kinds-of-error", "cka", "paths", "impact",
}  # fmt: skip


def names(paths, kind="png"):
    return {path.stem for path in paths if path.suffix == f".{kind}"}


@pytest.fixture
def slim(records):
    """A record that has the values for one plot of its own: the loss."""

    def slim(**schedule):
        record = records.plain()
        record["stages"] = {"replacing": {"history": [{"step": 1, "loss": 0.7}, {"step": 2, "loss": 0.6}]}}
        record["config"]["method"]["schedule"] = schedule
        for name in ("predecessor", "successor", "truncated"):
            del record[name]["latency"]
        del record["masks"]
        return record

    return slim


def test_an_analysed_run_gives_every_plot_twice_with_units_on_the_axes(records, tmp_path):
    written = write_figures([("demo", records.analysed())], tmp_path / "figures")
    assert names(written) == names(written, "svg") == WHOLE
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written if path.suffix == ".png")
    text = (tmp_path / "figures" / "latency.svg").read_text("utf-8")
    assert "time of a batch (ms)" in text
    assert "texts in a batch" in text
    assert "predecessor" in text


def test_a_run_gives_what_it_has(slim, tmp_path):
    assert names(write_figures([("demo", slim())], tmp_path)) == {"loss"}


def test_runs_at_constant_rates_give_the_curve_over_the_rates(slim, tmp_path):
    runs = [(f"../rate $ {rate}", slim(kind="constant", rate=rate)) for rate in (0.3, 0.5)]
    written = write_figures(runs, tmp_path / "here")
    assert names(written) == {"score-by-rate", "speed-up-and-retained", "1-rate-0-3-loss", "2-rate-0-5-loss"}
    assert {path.parent for path in written} == {tmp_path / "here"}


@pytest.mark.parametrize(("key", "plot"), [("start", "score-by-start"), ("full_at", "score-by-full-at")])
def test_runs_that_rise_otherwise_give_a_curve_with_a_line_a_learning_rate(slim, tmp_path, key, plot):
    runs = []
    for value in (0.1, 0.9):
        for rate in (1e-5, 2e-5):
            record = slim(**{"kind": "linear", "start": 0.3, "full_at": 0.5, key: value})
            record["config"]["training"] = {"learning_rate": rate}
            runs.append((f"{value}-{rate}", record))
    found = names(write_figures(runs, tmp_path))
    assert plot in found
    assert not {"score-by-rate", "score-by-start", "score-by-full-at"} - {plot} & found
    text = (tmp_path / f"{plot}.svg").read_text("utf-8")
    assert "learning rate 1e-05" in text
    assert "learning rate 2e-05" in text


def test_one_rate_makes_no_curve(slim, tmp_path):
    runs = [(name, slim(kind="constant", rate=0.5)) for name in "ab"]
    assert "score-by-rate" not in names(write_figures(runs, tmp_path))


def test_the_same_record_gives_the_same_bytes(slim, tmp_path):
    for place in "ab":
        write_figures([("demo", slim())], tmp_path / place)
    assert (tmp_path / "a" / "loss.svg").read_bytes() == (tmp_path / "b" / "loss.svg").read_bytes()


def test_a_damaged_record_is_refused(slim, tmp_path):
    damaged = slim() | {"analysis": {"inside": {"impact": {"slots": [{"slot": "x"}]}}}}
    with pytest.raises(RunError, match=r"cannot be drawn \(KeyError"):
        write_figures([("demo", damaged)], tmp_path)


def test_without_matplotlib_the_extra_is_named(slim, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "matplotlib" else find(name, *rest)
    )
    with pytest.raises(MissingExtraError, match=r"pip install plankwise\[plots\]"):
        write_figures([("demo", slim())], tmp_path)
    assert not list(tmp_path.iterdir())
