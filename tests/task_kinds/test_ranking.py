"""The loss that a ranking is trained with, what it refuses, and which queries an analysis names."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from torch.nn import functional

from plankwise.analysis_options import AnalysisOptions
from plankwise.config import validate_config
from plankwise.data.ranking import gather
from plankwise.errors import ConfigError, DataError, RunError
from plankwise.models.loading import Loader
from plankwise.models.rankers import scores_of
from plankwise.runtimes.torch import TorchPredictor
from plankwise.task_kinds import ErrorRequest, read_task
from plankwise.task_kinds._ranking_errors import compare_rankings
from plankwise.task_kinds._ranking_predictions import rank_by_query
from plankwise.task_kinds.ranking import ENTROPY, ORDER, SQUARED, compare_neighbours
from plankwise.training.batches import StepBatches
from plankwise.training.losses import distilling
from plankwise.training.targets import Targets

sys.path.insert(0, str(Path(__file__).parent))
from example_ranking import pairs, section, triples, write

QUIET = Console(quiet=True)


@pytest.fixture
def open_task(tmp_path, tiny_model_folder):
    """The task of the example with some keys changed, and its loader."""

    def make(training=None, **changes):
        given = {**section(tmp_path), **changes}
        config = validate_config(
            {
                "task": {key: value for key, value in given.items() if value is not None},
                "predecessor": {"path": str(tiny_model_folder)},
                "training": {"max_length": 24, **(training or {})},
            }
        )
        return read_task(config, Loader().tokenizer(str(tiny_model_folder)), QUIET)

    return make


def batch_of(task, rows):
    examples = [{name: task.train.dataset[row][name] for name in task.train.dataset.column_names} for row in rows]
    return dict(task.collate(lambda: 0)(examples))


def test_scores_between_0_and_1_are_learnt_by_cross_entropy_and_others_as_numbers(
    open_task, tmp_path, tiny_model_folder
):
    soft = [(query, text, 0.25 + score / 2) for query, text, score in pairs(range(6))]
    graded = [(query, text, 3 * score - 1) for query, text, score in pairs(range(6))]
    expected = {ENTROPY: functional.binary_cross_entropy_with_logits, SQUARED: functional.mse_loss}
    functions = {ENTROPY: torch.sigmoid, SQUARED: lambda logits: logits}
    for rows, name in ((soft, ENTROPY), (graded, SQUARED)):
        task = open_task(train=str(write(tmp_path / "other.csv", "query,text,score", rows)))
        assert task.loss_name == name
        assert task.loss is None  # the model's own
        model = task.load(Loader(), str(tiny_model_folder)).model.eval()
        batch = batch_of(task, [0, 3, 5])
        output = model(**batch)
        wanted = torch.tensor([[rows[row][2]] for row in (0, 3, 5)], dtype=torch.float)
        assert output["loss"].item() == pytest.approx(expected[name](output["logits"], wanted).item())
        logits = output["logits"][:, 0].detach()
        np.testing.assert_allclose(scores_of(logits.numpy(), model.config, ""), functions[name](logits), rtol=1e-6)


def test_triples_are_learnt_by_the_order_of_neighbours_with_and_without_the_predecessors_logits(open_task, tmp_path):
    file = write(tmp_path / "triples.csv", "query,positive,negative", triples(range(6)))
    task = open_task(train=str(file), positive="positive", negative="negative", train_limit=7)
    assert (task.loss_name, len(task.train.lengths), task.train.together) == (ORDER, 14, 2)
    assert batch_of(task, [0, 1, 2, 3])["labels"].tolist() == [[1], [0], [1], [0]]
    logits = torch.tensor([[1.0], [0.5], [-2.0], [1.0]])
    output = {"logits": logits, "loss": torch.tensor(9.0)}
    found = compare_neighbours(lambda **given: output, {}, torch.arange(4))
    expected = (math.log1p(math.exp(-0.5)) + math.log1p(math.exp(3))) / 2
    assert found.item() == pytest.approx(expected)
    kept = Targets({"logits": np.zeros((4, 1), np.float32)}, 0.0, on_disk=False)
    both = distilling(kept, 0.25, 1.0, task=task.loss)(lambda **given: output, {}, torch.arange(4))
    assert both.item() == pytest.approx(0.75 * expected + 0.25 * logits.square().mean().item())
    skipped = {"loss": torch.tensor(9.0)}
    assert compare_neighbours(lambda **given: skipped, {}, torch.arange(4)).item() == 9


@pytest.mark.parametrize("accumulation", [1, 2, 3])
@pytest.mark.parametrize("ranks", [1, 2])
def test_no_micro_batch_divides_a_triple(accumulation, ranks):
    lengths = np.arange(1, 27)
    for rank in range(ranks):
        parts = StepBatches(
            lengths, batch_size=6, accumulation=accumulation, seed=0, rank=rank, world_size=ranks, together=2
        )
        for part in parts:
            assert part[1::2] == [row + 1 for row in part[::2]]
            assert all(row % 2 == 0 for row in part[::2])


def test_without_dev_whole_queries_are_held_out(open_task):
    task = open_task(dev=None)
    train, dev = set(task.examples.train["text"].to_pylist()), set(task.candidates.queries)
    assert (len(train), len(dev), train & dev) == (24, 6, set())


def test_queries_of_dev_are_taken_out_of_train_and_told(open_task, tmp_path):
    file = write(tmp_path / "more.csv", "query,text,score", [*pairs(range(10)), *pairs(range(30, 33))])
    task = open_task(train=str(file))
    assert task.examples.train.num_rows == 40
    assert task.to_json()["dropped"]["train"]["overlap"] == 12


def test_a_folder_in_beirs_layout_is_dev(open_task, tmp_path):
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    rows = {
        "corpus": {str(n): f"the {word}" for n, word in enumerate(["fine", "dull", "weak", "awful"])},
        "queries": {"1": "a"},
    }
    for name, found in rows.items():
        lines = [json.dumps({"_id": key, "text": text}) for key, text in found.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    (folder / "qrels" / "test.tsv").write_text("1\t0\t1\n")
    task = open_task(dev=str(folder), negatives=2)
    assert task.candidates.texts[0] == "the fine"
    assert len(task.candidates.texts) == 3
    (folder / "run.tsv").write_text("1\t2\n1\t0\n1\t1\n")
    assert open_task(dev=str(folder), candidates=str(folder / "run.tsv")).candidates.texts == (
        "the weak",
        "the fine",
        "the dull",
    )


@pytest.mark.parametrize(
    ("changes", "error", "reason"),
    [
        ({"positive": "text"}, ConfigError, "task.positive is given, but task.negative is not"),
        ({"text": "query"}, ConfigError, "name three different columns"),
        ({"candidates": "run.tsv"}, ConfigError, "a file of pairs, which has each query's texts already"),
        ({"dev": None, "candidates": "run.tsv"}, ConfigError, "task.candidates is given, but task.dev is not"),
        ({"train": "same.csv"}, DataError, "every score of train in column 'score' is 1"),
        ({"dev": "same.csv"}, DataError, "dev has no query to score by .5 queries whose texts are all as relevant"),
    ],
)
def test_what_cannot_be_is_refused(changes, error, reason, open_task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "same.csv", "query,text,score", [(f"q{n}", "a film", 1) for n in range(5)])
    with pytest.raises(error, match=reason):
        open_task(**changes)


def test_triples_need_batches_of_an_even_size_and_rankings_have_no_exits(open_task, tmp_path):
    file = write(tmp_path / "triples.csv", "query,positive,negative", triples(range(6)))
    task = open_task({"batch_size": 5}, train=str(file), positive="positive", negative="negative")
    with pytest.raises(ConfigError, match=r"training\.batch_size is 5, .* choose an even number"):
        task.check_config(task.config)
    config = task.config.model_copy(
        update={"method": validate_config({**task.config.model_dump(), "method": {"name": "exits"}}).method}
    )
    with pytest.raises(ConfigError, match=r"method\.name is 'exits'"):
        task.check_config(config)


def test_a_model_of_several_classes_and_one_that_knows_nothing_are_refused(open_task, tiny_classifier_folder):
    task = open_task()
    config = Loader().config(str(tiny_classifier_folder))
    config.num_labels = 1
    task.check_head(config, "model")
    config.num_labels = 2
    with pytest.raises(ConfigError, match="has 2 classes, but a ranking needs one score for each pair"):
        task.check_head(config, "model")

    def always_the_same(batch):
        return {"logits": torch.zeros(len(batch["input_ids"]), 1)}

    always_the_same.tokenizer = None
    assert task.score(always_the_same)["mrr@10"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    with pytest.raises(RunError, match="no better than texts in a random order"):
        task.check_predecessor(always_the_same, "model")


def test_the_queries_whose_best_text_fell_furthest_come_first():
    some, _ = gather({name: {"x": 0, "y": 2, "z": 2} for name in ("kept", "fell", "fell far")})
    before = np.array([0.0, 2, 1] * 3)
    after = np.array([0.0, 2, 1, 2, 2, 1, 3, 1, 2])
    found = compare_rankings(some, before, after)
    assert [(dict(case.fields), case.title, case.before, case.after) for case in found.cases] == [
        ({"query": "fell far", "its best text": "y"}, "from rank 1 to 3", ["first: y"], ["first: x"]),
        ({"query": "fell", "its best text": "y"}, "from rank 1 to 1.5", ["first: y"], ["first: x"]),
    ]
    assert (found.examples, found.cases_total) == (3, 2)
    assert "2 queries rank worse and 0 better" in found.note
    (table,) = found.tables
    assert [(row.name, row.before, row.after, row.of) for row in table.rows] == [
        ("first", [3], [1], 3),
        ("among the first 3", [3], [3], 3),
        ("among the first 10", [3], [3], 3),
    ]
    assert compare_rankings(some, before, before).cases == []


def test_a_ranking_has_no_errors_to_label(open_task, tiny_model_folder, tmp_path):
    task = open_task()
    model = task.load(Loader(), str(tiny_model_folder)).model
    given = (lambda name: TorchPredictor(model), AnalysisOptions())
    assert task.find_errors(*given, ErrorRequest(), {}, QUIET)["cases_total"] == 0
    with pytest.raises(ConfigError, match="leave --sample and --labels out"):
        task.find_errors(*given, ErrorRequest(sample=tmp_path / "x.csv"), {}, QUIET)


def test_equal_scores_share_a_rank_among_the_texts_of_their_query():
    found = rank_by_query(["a", "b", "a", "a", "b"], np.array([0.5, 0.1, 0.5, 0.9, 0.3]))
    assert found.tolist() == [2, 2, 2, 1, 1]
