import json
import re

import pytest


def model(score, **more):
    latency = {"1": {"mean_ms": 10.0, "std_ms": 1.0, "p50_ms": 9.5, "p95_ms": 12.0, "predictions": 9}}
    figures = {"path": "runs/[x]/m", "parameters": 1_500_000, "size_mb": 6.1, "latency_ms": 9.5, "latency": latency}
    return {**figures, "score": score, "metrics": {"accuracy": score}, **more}


def make_record(name="tiny", **more):
    history = [{"step": 10 * step, "loss": 1 / step, "eval_score": 0.5 + step / 50} for step in range(1, 6)]
    return {
        "predecessor": model(0.8, speedup=1.0),
        "successor": model(0.76, retained=0.95, speedup=2.0, parameters=750_000),
        "retained": 0.95,
        "compression_ratio": 2.0,
        "speedup": 2.0,
        "steps": 50,
        "skipped_steps": 0,
        "seconds": 12.5,
        "plan": [{"path": "bert.encoder.layer", "span": [0, 1], "part": "layers"}],
        "stages": {
            "replacing": {"steps": 50, "seconds": 12.5, "best_score": 0.76, "best_step": 50, "history": history}
        },
        "task": {"name": "table", "labels": ["a", "b"], "score": ["accuracy"], "train": 40, "dev": {"dev": 10}},
        "config": {"run": {"name": name, "folder": f"runs/{name}"}, "method": {"name": "replacing"}},
        "seed": 0,
        **more,
    }


@pytest.fixture
def run_folder(tmp_path):
    def run_folder(name="tiny", **more):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "record.json").write_text(json.dumps(make_record(name, **more)), "utf-8")
        return folder

    return run_folder


def test_the_verdict_is_printed_and_the_page_is_the_last_line(command, run_folder):
    folder = run_folder()
    result = command("report", folder)
    assert result.code == 0, result.err
    told = "The successor is 2.0 times smaller and 2.0 times faster and keeps 95.0% of accuracy."
    assert " ".join(result.out.split()).startswith(told)
    lines = result.out.splitlines()
    assert lines[-1] == str(folder / "report.html")
    assert any(
        line.split() == ["successor", "750.0", "k", "6.1", "MB", "0.7600", "95.0%", "9.50", "ms", "2.00×"]
        for line in lines
    )
    assert max(map(len, lines[:-1])) <= 80
    assert "keeps 95.0% of accuracy" in (folder / "report.html").read_text("utf-8")


def test_several_runs_are_compared_in_a_page_here(command, run_folder, tmp_path, monkeypatch):
    folders = [run_folder("one"), run_folder("two", retained=0.97, seconds=99.0)]
    monkeypatch.chdir(tmp_path)
    result = command("report", *folders)
    assert result.code == 0, result.err
    told = "two and one keep the most: 97.0% to 95.0% of accuracy on table, a gap within the sampling error of 10 dev examples"
    assert told in result.out.replace("\n", " ")
    assert result.out.splitlines()[-1] == "report.html"
    assert len(re.findall("<article", (tmp_path / "report.html").read_text("utf-8"))) == 2


def test_runs_of_different_tasks_are_not_ranked_together(command, run_folder, tmp_path, monkeypatch):
    other = {**make_record()["task"], "name": "letters"}
    folders = [run_folder("one"), run_folder("two", retained=0.97, task=other)]
    monkeypatch.chdir(tmp_path)
    told = " ".join(command("report", *folders).out.split())
    assert "2 runs in 2 groups: scores on different tasks, or by different metrics, do not compare" in told
    assert "one, the only run on table, keeps 95.0% of accuracy and is 2.00× as fast." in told
    assert "two, the only run on letters, keeps 97.0% of accuracy and is 2.00× as fast." in told


def test_the_page_goes_where_out_says(command, run_folder, tmp_path):
    result = command("report", run_folder(), "--out", tmp_path / "new" / "page.html")
    assert result.out.splitlines()[-1] == str(tmp_path / "new" / "page.html")
    assert (tmp_path / "new" / "page.html").is_file()
    assert not (tmp_path / "tiny" / "report.html").exists()


def test_figures_are_written_beside_the_page(command, run_folder, tmp_path):
    result = command("report", run_folder(), "--figures", tmp_path / "figures")
    assert result.code == 0, result.err
    assert {path.name for path in (tmp_path / "figures").iterdir()} >= {
        "loss.png",
        "loss.svg",
        "score.png",
        "score.svg",
    }
    assert result.out.splitlines()[-1].endswith("report.html")


def test_a_comparisons_folder_prints_its_verdict(command, tmp_path):
    rows = [{"label": "kd", "median": 0.8, "retained": 0.976, "verdict": "best baseline"}]
    task = {"name": "reviews", "score": ["accuracy"], "rows": rows, "cells": []}
    (tmp_path / "table.json").write_text(json.dumps({"tasks": [task]}))
    result = command("report", tmp_path)
    assert result.code == 0, result.err
    assert "On reviews, kd has the highest median: 0.8000" in result.out
    assert any(line.split() == ["kd", "0.8000", "97.6%", "best", "baseline"] for line in result.out.splitlines())
    assert result.out.splitlines()[-1] == str(tmp_path / "report.html")


def test_a_folder_without_a_record_is_refused(command, tmp_path):
    result = command("report", tmp_path)
    assert result.code == 2
    assert result.err.startswith(f"plankwise: {tmp_path} has no record.json")
    assert result.err.count("\n") == 1


def test_a_damaged_record_is_refused_and_nothing_is_written(command, run_folder):
    folder = run_folder(successor=[])
    result = command("report", folder)
    assert result.code == 2
    assert "record.json is damaged" in result.err
    assert not (folder / "report.html").exists()
