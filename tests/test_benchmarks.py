"""The benchmarks' own machinery: made benchmarks that write, fail or hang, and fits of made figures."""

import importlib.util
import io
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

FOLDER = Path(__file__).parent.parent / "benchmarks"
WRITES = """
import sys
from pathlib import Path
Path(sys.argv[sys.argv.index("--section") + 1]).write_text("## Made\\n\\n" + " ".join(sys.argv[1:-2]) + "\\n")
"""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def bench():
    return load("all")


@pytest.fixture(scope="module")
def growth():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        return load("growth")


@pytest.fixture(scope="module")
def scale():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        return load("scale")


@pytest.fixture
def common():
    return load("_common")


def save(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, "utf-8")
    return name


def test_every_benchmark_in_the_folder_is_run(bench):
    scripts = {path.name for path in FOLDER.glob("*.py") if not path.name.startswith("_")} - {"all.py"}
    assert scripts == {benchmark.script for benchmark in bench.BENCHMARKS}


def test_a_benchmark_gets_its_arguments_and_its_section_is_taken(bench, tmp_path):
    script = save(tmp_path, "writes.py", WRITES)
    result = bench.run(bench.Benchmark(script, ("--gb", "0.5")), tmp_path)
    assert (result.section, result.fault) == ("## Made\n\n--gb 0.5", None)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("raise SystemExit(3)", "it ended with the exit code 3"),
        ("import os; os.abort()", "it was ended by the signal SIGABRT"),
        ("", "it ended without a fault, but wrote no section"),
    ],
)
def test_a_benchmark_that_fails_gets_a_section_that_says_so(bench, tmp_path, text, fault):
    result = bench.run(bench.Benchmark(save(tmp_path, "fails.py", text)), tmp_path)
    assert result.fault == fault
    assert result.section == f"## fails.py\n\n**Failed**: {fault}."


def test_what_was_written_before_a_failure_is_kept(bench, tmp_path):
    script = save(tmp_path, "half.py", f"{WRITES}\nraise SystemExit(1)")
    result = bench.run(bench.Benchmark(script), tmp_path)
    assert result.section == "## Made\n\n**Failed**: it ended with the exit code 1."


def test_a_benchmark_that_hangs_is_stopped_with_what_it_started(bench, tmp_path):
    script = f"""
import os, time
child = os.fork()
if child:
    with open({str(tmp_path / "child")!r}, "w") as file:
        file.write(str(child))
time.sleep(60)
"""
    result = bench.run(bench.Benchmark(save(tmp_path, "hangs.py", script), limit=3), tmp_path)
    assert result.fault == "it was stopped at its limit of 3 seconds"
    assert not _is_running(int((tmp_path / "child").read_text()))


def _is_running(process: int) -> bool:
    for _ in range(50):  # a killed process is there until it is reaped
        try:
            os.kill(process, 0)
            state = re.search(r"^State:\s+(\w)", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
        except (ProcessLookupError, FileNotFoundError):
            return False
        if state and state[1] == "Z":
            return False
        time.sleep(0.1)
    return True


def test_the_others_still_run_and_the_results_hold_all_sections_in_order(bench, tmp_path):
    fails, writes = save(tmp_path, "fails.py", "raise SystemExit(1)"), save(tmp_path, "writes.py", WRITES)
    results, benchmarks = tmp_path / "results.md", [bench.Benchmark(fails), bench.Benchmark(writes, ("later",))]
    assert not bench.run_all(benchmarks, tmp_path, results, Console(quiet=True))
    text = results.read_text("utf-8")
    assert re.findall("^#.*", text, re.MULTILINE) == ["# What plankwise costs", "## fails.py", "## Made"]
    assert text.endswith("## Made\n\nlater\n")
    assert bench.run_all(benchmarks[1:], tmp_path, results, Console(quiet=True))
    assert "Failed" not in results.read_text("utf-8")


def test_the_results_name_machine_and_date_but_neither_host_nor_places(bench, tmp_path):
    results = tmp_path / "results.md"
    bench.run_all([bench.Benchmark(save(tmp_path, "fails.py", ""))], tmp_path, results, Console(quiet=True))
    text = results.read_text("utf-8")
    assert re.search(r"on \d{4}-\d\d-\d\d \d\d:\d\d UTC in \d+\.\d minutes", text)
    assert all(word in text for word in (" cores, ", " of memory", "Python 3", "torch ", "transformers "))
    assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", text)
    assert not re.search(r"/(tmp|home|root|work|Users|var)\b", text)


def test_an_exact_line_is_found_exactly(growth):
    fit = growth.fit_polynomial([1, 2, 4, 8], [5.0, 7.0, 11.0, 19.0], 1)
    assert fit.coefficients == pytest.approx((3.0, 2.0))
    assert fit.r2 == pytest.approx(1.0)
    assert fit(16) == pytest.approx(35.0)


def test_an_exact_parabola_is_found_and_no_line_explains_it(growth):
    xs = [32, 64, 128, 256]
    ys = [3 + 0.5 * x + 0.25 * x**2 for x in xs]
    assert growth.fit_polynomial(xs, ys, 2).coefficients == pytest.approx((3.0, 0.5, 0.25))
    assert growth.fit_polynomial(xs, ys, 1).r2 < growth.STRAIGHT


@pytest.mark.parametrize(
    ("power", "words"), [(1.0, "about linear"), (1.5, "between linear and quadratic"), (2.0, "about quadratic")]
)
def test_an_exact_power_is_found_and_named(growth, power, words):
    exponent = growth.fit_exponent([1, 2, 4], [3 * x**power for x in (1, 2, 4)])
    assert exponent == pytest.approx(power)
    assert growth.name_power(exponent) == words


def measured(growth, name: str, cost):
    points = growth.AXES[name]
    costs = [cost(getattr(point, name)) for point in points]
    return growth.Measured(name, points, costs, [1e9 * value for value in costs])


@pytest.mark.parametrize("name", ["examples", "layers"])
def test_the_words_tell_a_line_through_zero_from_other_lines_and_from_curves(growth, name):
    assert "a straight line through nearly zero (R² 1.0000" in measured(growth, name, lambda x: x).describe()
    assert "a straight line that does not go through zero" in measured(growth, name, lambda x: x + 500).describe()
    assert "NOT a straight line" in measured(growth, name, lambda x: x**3).describe()


def test_the_words_tell_what_attention_bends_from_what_it_does_not(growth):
    bent = measured(growth, "tokens", lambda x: x + x**2 / 384).describe()
    assert "the curve bends upwards" in bent
    assert "the square is 50% at 384 tokens" in bent
    assert "does NOT bend upwards" in measured(growth, "tokens", lambda x: x + 100 * x**0.5).describe()


def test_the_prediction_meets_the_measurement_in_the_middle_and_follows_the_counts(growth):
    axis = growth.Measured("width", growth.AXES["width"][:3], [1.0, 2.0, 3.0], [10.0, 40.0, 90.0])
    assert axis.predicted == [0.5, 2.0, 4.5]


def test_joined_texts_have_at_least_so_many_words_and_begin_again(growth):
    texts = growth.join_texts(["a b", "c", "d e f"], 4)
    assert [next(texts) for _ in range(3)] == ["a b c d e f", "a b c d e f", "a b c d e f"]


def test_a_section_is_a_heading_and_paragraphs_and_nothing_without_a_file(common, tmp_path):
    table = common.make_table(["what", "seconds"], [["reading", "1.5"]])
    common.write_section(tmp_path / "section.md", "Made", [table, "Done."])
    expected = "## Made\n\n| what | seconds |\n| --- | ---: |\n| reading | 1.5 |\n\nDone.\n"
    assert (tmp_path / "section.md").read_text("utf-8") == expected
    common.write_section(None, "Made", ["Done."])
    assert [path.name for path in tmp_path.iterdir()] == ["section.md"]


def test_peak_memory_grows_by_what_is_held():
    code = "from _common import peak_mb; before = peak_mb(); held = b'x' * 200_000_000; print(peak_mb() - before)"
    environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert 150 < float(done.stdout) < 250


@pytest.mark.parametrize("mask", [(True, True), (True, False), (False, True)])
def test_the_cost_model_counts_what_torch_counts(scale, mask):
    point = scale.Point(layers=4, width=64, length=32)
    point.mask = mask
    assert point.count() == pytest.approx(point.predicted, rel=0.01)


def test_a_step_that_draws_no_slot_costs_nothing(scale):
    shape = scale.Shape(4, 64, 256, 1000)
    assert shape.step_work((False, False), 2, 32) == shape.activations((False, False), 2) == 0


def test_the_page_on_scale_has_the_calculated_figures(scale):
    shown = Console(file=io.StringIO(), width=400, highlight=False)
    scale.tell_paper(shown)
    page = (FOLDER.parent / "docs" / "scale.md").read_text("utf-8")
    for line in shown.file.getvalue().splitlines():
        assert line.strip() in page
