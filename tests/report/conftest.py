"""Records built by hand, as a run and its analysis would leave them, and a browser to open their pages in."""

import json
import math
import shutil
from types import SimpleNamespace

import pytest

from plankwise.record import Shown

SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
BATCHES = (1, 2, 4, 8, 16, 32)


def make_model(name, parameters, score, speed, **more):
    latency = {
        "1": {"mean_ms": 20 / speed, "std_ms": 2.5, "p50_ms": 19 / speed, "p95_ms": 26 / speed, "predictions": 100}
    }
    metrics = {"accuracy": score, "f1": score - 0.004}
    size = {"path": f"runs/demo/{name}", "parameters": parameters, "size_mb": parameters / 250_000}
    time = {"latency_ms": 19 / speed, "latency": latency, "speedup": speed}
    return {**size, "score": score, "metrics": metrics, **time, **more}


def make_history(start, end, points=20, rate=False):
    found = []
    for index in range(1, points + 1):
        entry = {"step": 10 * index, "loss": end + (start - end) * math.exp(-index / 6), "learning_rate": 2e-4}
        if rate:
            entry["replacing_rate"] = min(1.0, 0.3 + 0.07 * index)
        found.append(entry)
        if index % 5 == 0:
            found.append({"step": 10 * index, "eval_score": 0.7 + 0.005 * index - start / 100})
    return found


def make_stage(name, history):
    figures = {"steps": 200, "max_steps": 200, "seconds": 133.4, "seconds_to_best": 120.0, "best_step": 200}
    return {"name": name, **figures, "best_score": 0.799, "history": history}


def make_record():
    """A run of 6 layers to 3 on two classes, without an analysis."""
    plan = [{"path": "bert.encoder.layer", "span": [2 * i, 2 * i + 1], "part": "layers"} for i in range(3)]
    bins = [
        {"step": 2 * i, "steps": 2, "replaced": [min(2, (i + slot) % 3 if i < 50 else 2) for slot in range(3)]}
        for i in range(100)
    ]
    return {
        "predecessor": make_model("predecessor", 22_713_986, 0.798, 1.0),
        "successor": make_model("successor", 17_390_594, 0.786, 1.79, retained=0.786 / 0.798),
        "truncated": make_model("truncated", 17_390_594, 0.778, 1.84, retained=0.778 / 0.798),
        "retained": 0.786 / 0.798,
        "compression_ratio": 22_713_986 / 17_390_594,
        "speedup": 1.79,
        "steps": 200,
        "skipped_steps": 9,
        "seconds": 457.5,
        "plan": plan,
        "stages": {
            "predecessor": make_stage("predecessor", make_history(0.69, 0.42)),
            "replacing": make_stage("replacing", make_history(0.58, 0.38, rate=True)),
            "truncated": make_stage("truncated", make_history(0.68, 0.44)),
        },
        "masks": {"slots": [f"bert.encoder.layer {2 * i}-{2 * i + 1}" for i in range(3)], "bins": bins},
        "task": {
            "name": "reviews/sentences",
            "kind": "labels",
            "shown": Shown("accuracy").to_json(),
            "facts": [],
            "labels": ["negative", "positive"],
            "score": ["accuracy"],
            "train": 1600,
            "dev": {"dev": 1000},
            "dropped": {"train": {"empty": 0, "duplicates": 2}},
            "cut": {"train": 1, "dev": 1},
        },
        "config": {
            "run": {"name": "demo", "folder": "runs/demo", "seed": 0},
            "predecessor": {"path": "acme/bert-small"},
            "method": {"name": "replacing", "schedule": {"kind": "linear", "start": 0.3}},
            "training": {"max_length": 64},
        },
        "seed": 0,
        "made_head": True,
        "machine": {"system": "Linux x86_64", "python": "3.11.7", "cores": 2, "versions": {"plankwise": "0.1.0"}},
    }


def make_text_task(objective="mlm", pipeline="fill-mask"):
    """The task of a language model, as its kind writes it."""
    shown = Shown("perplexity", "perplexity", 2, True, "pieces of text", pipeline)
    described = {"kind": "text", "shown": shown.to_json(), "facts": [["objective", objective]]}
    return {"name": "letters", **described, "score": ["1 / perplexity"], "train": 10, "dev": {"dev": 5}}


def make_tagged(record):
    """The record as a kind of task that the project does not know would write it: tags of tokens, judged by F1."""
    shown = Shown("F1 of entities", "entity_f1", 1, unit="sentences", pipeline="token-classification")
    facts = [["tags", "B-PER, I-PER, O"]]
    record["task"] = {"name": "names", "kind": "tags", "shown": shown.to_json(), "facts": facts, "score": ["entity_f1"]}
    record["task"] |= {"train": 90, "dev": {"dev": 30}}
    for name, value in {"predecessor": 91.23, "truncated": 80.5, "successor": 88.77}.items():
        record[name] |= {"metrics": {"entity_f1": value, "tag_accuracy": 0.97}, "score": value / 100}
    for stage in record["stages"].values():
        stage["history"] = [
            {**entry, "eval_entity_f1": 100 * entry["eval_score"]} if "eval_score" in entry else entry
            for entry in stage["history"]
        ]
    return record


def make_cost():
    names = {"predecessor": 1.0, "truncated": 1.84, "successor": 1.79}
    latency = {
        name: {
            str(batch): {
                "mean_ms": (8 + 12 * batch) / speed,
                "std_ms": 1.0 + 0.4 * batch,
                "p50_ms": (8 + 11.5 * batch) / speed,
                "p95_ms": (10 + 14 * batch) / speed,
                "p99_ms": (12 + 15 * batch) / speed,
                "predictions": 100,
                "tokens_per_second": 24_000 * batch * speed / (8 + 12 * batch),
            }
            for batch in BATCHES
        }
        for name, speed in names.items()
    }
    blocks = {"predecessor": 10_646_784, "truncated": 5_323_392, "successor": 5_323_392}
    return {
        "device": "cpu",
        "threads": 2,
        "latency": latency,
        "speedup": {str(batch): 1.79 for batch in BATCHES},
        "load_seconds": {"predecessor": 0.41, "truncated": 0.33, "successor": 0.34},
        "peak_mb": {"predecessor": 412.0, "truncated": 371.0, "successor": 372.5},
        "size_mb": {"predecessor": 90.9, "truncated": 69.6, "successor": 69.6},
        "parameters": {name: {"embeddings": 11_917_000, "blocks": n, "head": 148_610} for name, n in blocks.items()},
        "multiply_adds": {name: {"tokens": 64, "count": 64 * n} for name, n in blocks.items()},
    }


def make_flip(index, text=None):
    kind = ("lost", "gained", "changed")[index % 3]
    right, wrong = ("positive", "negative") if index % 2 else ("negative", "positive")
    before, after = (right, wrong) if kind == "lost" else (wrong, right)
    return {
        "row": index,
        "text": text or f"sentence number {index}: a film whose plot was {'lovely' if index % 2 else 'dull'} and long",
        "label": right,
        "kind": kind,
        "predecessor": {"label": before, "confidence": 0.5 + (index % 49) / 100},
        "successor": {"label": after, "confidence": 0.5 + (index % 37) / 100},
    }


def make_share(count, of):
    share = count / of
    return {"count": count, "of": of, "share": share, "low": max(0.0, share - 0.05), "high": share + 0.05}


def make_errors(flips=12):
    bins = [
        {
            "low": 0.5 + i / 10,
            "high": 0.6 + i / 10,
            "count": 200,
            "confidence": 0.55 + i / 10,
            "accuracy": 0.52 + 0.09 * i,
        }
        for i in range(5)
    ]
    sides = ("false positives", "false negatives")
    return {
        "examples": 1000,
        "labels": ["negative", "positive"],
        "cells": {"both_right": 731, "lost": 67, "gained": 55, "both_wrong": 147},
        "agreement": 0.878,
        "kappa": 0.7561,
        "confusion": {"predecessor": [[402, 98], [104, 396]], "successor": [[390, 110], [104, 396]]},
        "calibration": {
            "predecessor": {"ece": 0.031, "bins": bins},
            "successor": {"ece": 0.052, "bins": [{**one, "accuracy": one["accuracy"] - 0.04} for one in bins]},
        },
        "by_class": [
            {"label": "negative", "count": 500, "predecessor": 0.804, "successor": 0.78},
            {"label": "positive", "count": 500, "predecessor": 0.792, "successor": 0.792},
        ],
        "by_length": [
            {
                "low": 1 + 12 * i,
                "high": 12 + 12 * i,
                "count": 250,
                "predecessor": 0.83 - 0.02 * i,
                "successor": 0.82 - 0.03 * i,
            }
            for i in range(4)
        ],
        "flips_total": 122,
        "flips": [make_flip(index) for index in range(flips)],
        "classes": {
            "margin": 0.03,
            "rules": [{"name": "negation", "rule": "a word such as not or never"}],
            "rows": [
                {
                    "name": name,
                    "side": side,
                    "before": make_share(20 + 5 * i, 100),
                    "after": make_share(24 + 5 * i, 110),
                    "difference": {"share": 0.018, "low": -0.02, "high": 0.056},
                    "stable": (True, False, None, None)[2 * i + j],
                }
                for i, name in enumerate(("negation", "long sentence"))
                for j, side in enumerate(sides)
            ],
        },
    }


def make_inside():
    rows = ["predecessor: embeddings", *(f"block {i}" for i in range(1, 7))]
    columns = ["successor: embeddings", *(f"block {i}" for i in range(1, 4))]
    tokens = ["[CLS]", "a", "lovely", "film", "[SEP]"]
    path = [[[i * 0.5 + t * math.cos(i), t - i * math.sin(t)] for t in range(len(tokens))] for i in range(7)]
    return {
        "cka": {
            "rows": rows,
            "columns": columns,
            "values": [[1 - abs(i - 2 * j) / 8 for j in range(4)] for i in range(7)],
            "tokens": 4096,
        },
        "paths": {"sentence": "a lovely film", "tokens": tokens, "predecessor": path, "successor": path[::2]},
        "impact": {
            "baseline": 0.798,
            "slots": [
                {"slot": f"bert.encoder.layer[{2 * i}, {2 * i + 1}]", "score": 0.79 - i / 100, "drop": 0.008 + i / 100}
                for i in range(3)
            ],
            "all": 0.786,
        },
    }


@pytest.fixture
def records():
    """Makes records: `plain`, `analysed` with as many flips as one likes, and such of other kinds of task."""

    def analysed(flips=12):
        return {
            **make_record(),
            "analysis": {"cost": make_cost(), "errors": make_errors(flips), "inside": make_inside()},
        }

    return SimpleNamespace(
        plain=make_record, analysed=analysed, flip=make_flip, text_task=make_text_task, tagged=make_tagged
    )


@pytest.fixture
def save(tmp_path):
    """Saves a record as a run's folder; gives the folder."""

    def save(record, name="run"):
        folder = tmp_path / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "record.json").write_text(json.dumps(record), "utf-8")
        return folder

    return save


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium without a window and with a new profile; without it these tests fail, they are not passed over."""
    path = shutil.which("chromium")
    assert path, "chromium is not installed, so the page cannot be opened; install it with: apt-get install chromium"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, headless=True, args=list(SWITCHES))
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser):
    """Opens a page in a fresh tab of a given width; gives the tab, with `complaints` of the console and of scripts."""
    tabs = []

    def visit(file, width=1280, **how):
        tab = browser.new_page(**{"color_scheme": "light", **how})
        tabs.append(tab)
        complaints, requests = [], []
        tab.on(
            "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
        )
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.set_viewport_size({"width": width, "height": 900})
        tab.goto(file.resolve().as_uri())
        return SimpleNamespace(tab=tab, complaints=complaints, requests=requests)

    yield visit
    for tab in tabs:
        tab.close()
