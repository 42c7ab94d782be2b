"""Methods side by side on plain text: nothing is kept by example, so rows are not tested against each other."""

import json

import pytest

from plankwise.comparison.cells import CELL


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


def test_methods_are_compared_on_text_without_a_test(command, language_model, tiny, tmp_path):
    corpus, recipe, folder = tmp_path / "corpus.txt", tmp_path / "domain.toml", tmp_path / "all"
    corpus.write_text("\n".join(text for text, _ in tiny.make_rows(100)), "utf-8")
    recipe.write_text('[task]\nname = "text"\n', "utf-8")
    keys = [f"task.path={corpus}", f"predecessor.path={language_model}", "training.max_length=16"]
    keys += ["training.max_steps=1", "training.batch_size=8", "predecessor.finetune=false", "evaluation.latency=false"]
    arguments = ("compare", recipe, *keys, "--methods", "finetune,replacing", "--seeds", 1, "--folder", folder)
    result = command(*arguments)
    assert result.code == 0, result.out + result.err
    assert "corpus: score is 1 / perplexity on dev, 1 seed" in result.out
    (task,) = json.loads((folder / "table.json").read_text())["tasks"]
    before, cut, ours = task["rows"]
    told = "not shown to be better than always answering tokens by their frequency (perplexity "
    assert all(row["verdict"].startswith(told) for row in (before, cut, ours))
    assert task["notes"][0].startswith("no row is shown to have learnt the task: ")
    assert (ours["difference"], ours["p"]) == (None, None)
    assert ours["retained"] == pytest.approx(ours["median"] / before["median"])
    cell = json.loads((folder / "domain" / "replacing" / "seed-0" / CELL).read_text())
    assert cell["score"] == pytest.approx(1 / cell["metrics"]["perplexity"])
    again = command(*arguments)
    assert "2 of 2 cells are finished already" in again.out
    assert again.code == 0


def test_a_method_that_needs_logits_is_refused_with_its_row(command, language_model, tiny, tmp_path):
    corpus, recipe = tmp_path / "corpus.txt", tmp_path / "domain.toml"
    corpus.write_text("\n".join(text for text, _ in tiny.make_rows(100)), "utf-8")
    recipe.write_text('[task]\nname = "text"\n', "utf-8")
    keys = [f"task.path={corpus}", f"predecessor.path={language_model}", "training.max_length=16"]
    result = command("compare", recipe, *keys, "--methods", "finetune,kd", "--folder", tmp_path / "all")
    assert result.code == 2
    assert result.err.startswith("plankwise: row 'kd' of domain: method.name is 'kd' with the predecessor's logits")
    assert not (tmp_path / "all").exists()
