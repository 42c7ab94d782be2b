"""Methods side by side on plain text: rows are tested against each other by the losses on single sequences."""

import json
import math

import numpy as np
import pytest

from plankwise.comparison.cells import CELL, OUTPUTS
from plankwise.task_kinds.text import Text


@pytest.fixture(scope="module")
def language_model(tmp_path_factory, tiny):
    """A masked language model that knows which words there are, and nothing else."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    folder = tmp_path_factory.mktemp("models") / "mlm"
    sizes = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(**sizes, vocab_size=len(tiny.words), max_position_embeddings=32))
    with torch.no_grad():
        model.cls.predictions.bias[:5] = -5.0  # special tokens
    model.save_pretrained(folder)
    tiny.save_tokenizer(folder)
    return folder


@pytest.fixture
def arguments(language_model, tiny, tmp_path):
    """What `compare` is told, but for the rows."""
    corpus, recipe = tmp_path / "corpus.txt", tmp_path / "domain.toml"
    corpus.write_text("\n".join(text for text, _ in tiny.make_rows(100)), "utf-8")
    recipe.write_text('[task]\nname = "text"\n', "utf-8")
    keys = [f"task.path={corpus}", f"predecessor.path={language_model}", "training.max_length=16"]
    keys += ["training.max_steps=1", "training.batch_size=8", "predecessor.finetune=false", "evaluation.latency=false"]
    return ("compare", recipe, *keys, "--folder", tmp_path / "all")


def test_methods_are_rows_on_text_and_are_tested_against_the_best_baseline(command, arguments, tmp_path):
    folder = tmp_path / "all"
    arguments = (*arguments, "--methods", "finetune,distilbert,replacing", "--seeds", 1)
    result = command(*arguments)
    assert result.code == 0, result.out + result.err
    assert "corpus: score is 1 / perplexity on dev, 1 seed" in result.out
    (task,) = json.loads((folder / "table.json").read_text())["tasks"]
    before, *rows = task["rows"]
    assert [row["label"] for row in rows] == ["finetune", "distilbert", "replacing"]
    told = "not shown to be better than always answering tokens by their frequency (perplexity "
    assert all(row["verdict"].startswith(told) for row in task["rows"])
    assert task["notes"][0].startswith("no row is shown to have learnt the task: ")
    medians = {row["label"]: row["median"] for row in rows}
    assert task["baseline"] in ("finetune", "distilbert")
    for row in rows:
        assert row["retained"] == pytest.approx(row["median"] / before["median"])
        if row["label"] != task["baseline"]:
            assert row["difference"] == pytest.approx(row["median"] - medians[task["baseline"]])
            assert 0 < row["p"] <= 1
    cell = json.loads((folder / "domain" / "distilbert" / "seed-0" / CELL).read_text())
    losses, tokens = np.load(folder / "domain" / "distilbert" / "seed-0" / OUTPUTS)["dev_0"].T
    assert cell["score"] == pytest.approx(math.exp(-losses.sum() / tokens.sum()))
    again = command(*arguments)
    assert "3 of 3 cells are finished already" in again.out
    assert again.code == 0


def test_a_difference_on_text_is_that_of_the_scores_after_sequences_changed_sides():
    chance = np.random.default_rng(0)
    tokens = chance.integers(1, 9, 5)
    first, second = ([chance.random(5) * tokens for _ in range(2)] for _ in range(2))  # two seeds each
    masks = np.array([[0, 0, 0, 0, 0], [1, 0, 0, 1, 0], [1, 1, 1, 1, 1]], dtype=bool)
    expected = []
    for mask in masks:
        gaps = []
        for ours, theirs in zip(first, second, strict=True):
            ours, theirs = np.where(mask, theirs, ours), np.where(mask, ours, theirs)
            gaps.append(math.exp(-ours.sum() / tokens.sum()) - math.exp(-theirs.sum() / tokens.sum()))
        expected.append(sum(gaps) / 2)
    ours, theirs = ([{"dev": np.stack([losses, tokens], 1)} for losses in side] for side in (first, second))
    np.testing.assert_allclose(Text.differences(None, ours, theirs, {"dev": masks}), expected, rtol=1e-12)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("kd", "method.name is 'kd' with the predecessor's logits"),
        (
            "exits",
            "method.name is 'exits', which is for classes of whole texts, but the task is on text without labels",
        ),
    ],
)
def test_a_method_that_text_cannot_train_is_refused_with_its_row(method, why, command, arguments, tmp_path):
    result = command(*arguments, "--methods", f"finetune,{method}")
    assert result.code == 2
    assert result.err.startswith(f"plankwise: row '{method}' of domain: {why}")
    assert not (tmp_path / "all").exists()
