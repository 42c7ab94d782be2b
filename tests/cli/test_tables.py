import io

from rich.console import Console

from plankwise.cli._console import open_console
from plankwise.cli._tables import show_results
from plankwise.record import Shown


def model(parameters, **figures):
    latency = {"32": {"p50_ms": 1234.5}}
    return {
        "path": "runs/[x]/successor",
        "parameters": parameters,
        "size_mb": 1340.25,
        "score": 0.87654,
        "metrics": {"accuracy": 0.87654},
        "latency_ms": 1234.5,
        "latency": latency,
        **figures,
    }


RECORD = {
    "task": {"name": "glue/[mnli]", "score": ["accuracy"], "shown": Shown("accuracy").to_json()},
    "predecessor": model(335_141_888),
    "truncated": model(184_000_000, retained=0.912, speedup=1.9),
    "successor": model(38_402, retained=1.0123, speedup=12.345),
    "steps": 100,
    "skipped_steps": 20,
    "seconds": 61.2,
    "made_head": False,
}


def shown(record):
    out = io.StringIO()
    show_results(record, Console(file=out, width=80, markup=False))
    return out.getvalue().splitlines()


def test_large_figures_fit_80_columns_uncut():
    lines = shown(RECORD)
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "…" in line]
    assert lines[1].split() == ["parameters", "size", "score", "retained", "latency", "@32", "speed-up"]
    assert lines[2].split() == ["predecessor", "335.1", "M", "1340.2", "MB", "0.8765", "100.0%", "1234.50", "ms"]
    assert lines[4].split()[:3] == ["successor", "38.4", "k"]


def test_a_run_without_latency_and_speed_up_is_shown():
    plain = {key: value for key, value in model(1_500_000).items() if key != "latency"} | {"latency_ms": None}
    lines = shown({**RECORD, "predecessor": plain, "successor": plain, "truncated": plain})
    assert "ms" not in "".join(lines[2:5])
    assert lines[1].split()[-2:] == ["latency", "speed-up"]


def test_brackets_and_colons_in_names_are_shown_as_they_stand(capsys):
    open_console().print("[red]runs[/x] :smile:")
    assert capsys.readouterr().out == "[red]runs[/x] :smile:\n"


def test_the_figure_that_the_record_shows_has_its_own_column_and_digits():
    described = Shown("perplexity", "perplexity", 2, lower_is_better=True).to_json()
    task = {"name": "letters", "score": ["1 / perplexity"], "shown": described}
    models = {name: {**RECORD[name], "metrics": {"perplexity": 11.7031}} for name in ("predecessor", "successor")}
    lines = shown({**RECORD, "task": task, **models})
    assert lines[0].rstrip() == "letters: score is 1 / perplexity on dev"
    assert lines[1].split()[2] == "perplexity"
    assert [line.split()[5] for line in (lines[2], lines[4])] == ["11.70", "11.70"]


def test_the_successors_own_training_comes_first_and_the_others_apart():
    lines = shown({**RECORD, "seconds_by": {"predecessor": 40.2, "successor": 31.0, "truncated": 16.0}})
    assert "training: successor 31 s, predecessor 40 s, truncated 16 s" in lines
    assert "training: 61 s in all" in shown(RECORD)  # of a record that does not tell them apart


def test_a_model_that_knows_one_answer_and_what_dev_chose_are_told_below_the_table():
    found = {"answered": 2, "constant": "'[no]'", "constant_score": 0.645, "shown": False}
    dead = {**RECORD["successor"], "beyond_constant": found, "held_back": {"score": 0.5, "chosen_among": 3}}
    lines = shown({**RECORD, "successor": dead, "ignored_guards": {"label_order": "it is swapped"}})
    assert "101.2%*" in lines[4]
    told = (
        "the successor is not shown to be better than always answering '[no]' (0.6450): train longer (training.epochs)"
    )
    assert any(line.startswith(told) for line in lines)
    assert "the guard label_order was ignored (evaluation.ignore_guards): it is swapped" in lines
    assert "dev chose among 3 evaluations; the score on a half of dev that did not choose is 0.5000" in lines


def test_a_head_that_was_made_here_is_named():
    assert not any("head was made here" in line for line in shown(RECORD))
    assert any("head was made here" in line for line in shown({**RECORD, "made_head": True}))
