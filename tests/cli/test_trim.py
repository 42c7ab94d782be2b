import json

import pytest
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from vocabularies import DOMAIN, make_word_piece


@pytest.fixture
def model(tmp_path, tiny):
    tokenizer = make_word_piece()
    folder = tiny.save_bert(tmp_path / "model", names=("negative", "positive"), vocab_size=len(tokenizer))
    for file in (*folder.glob("*token*"), folder / "vocab.txt"):
        file.unlink()
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(DOMAIN), "utf-8")
    return path


def test_a_folder_is_trimmed_to_a_text_file_and_loads_plainly(command, model, corpus, tmp_path):
    out = tmp_path / "small"
    result = command("trim", model, "--vocabulary", corpus, "--out", out, "--json")
    assert result.code == 0
    told, tokenizer = json.loads(result.out), AutoTokenizer.from_pretrained(out)
    assert told["tokens"] == len(tokenizer) < told["tokens_before"]
    assert told["size_mb"] == (out / "model.safetensors").stat().st_size / 1e6 < told["size_mb_before"]
    assert AutoModelForSequenceClassification.from_pretrained(out).config.vocab_size == told["tokens"]


def test_a_tasks_training_texts_and_a_file_may_both_say_what_is_kept(command, model, corpus, table_file, tmp_path):
    task = ["task.name=table", f"task.train={table_file}", "task.text=sentence", "task.label=label"]
    sources = ["--vocabulary", "task", "--vocabulary", corpus]
    both, alone = tmp_path / "both", tmp_path / "alone"
    result = command("trim", model, *task, *sources, "--out", both)
    assert result.code == 0, result.err
    assert "tokens kept" in result.out
    assert command("trim", model, "--vocabulary", corpus, "--out", alone).code == 0
    sizes = [len(AutoTokenizer.from_pretrained(folder)) for folder in (alone, both)]
    assert sizes[0] < sizes[1]


def test_rare_tokens_go(command, model, corpus, tmp_path):
    for count in (1, 2):
        assert (
            command("trim", model, "--vocabulary", corpus, "--min-count", count, "--out", tmp_path / str(count)).code
            == 0
        )
    found = [AutoTokenizer.from_pretrained(tmp_path / name).get_vocab() for name in ("1", "2")]
    assert "music" in found[0]
    assert "music" not in found[1]
    assert "film" in found[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "small"], "--vocabulary is not given"),
        (["--vocabulary", "corpus.txt"], "--out is not given"),
        (["--vocabulary", "nowhere.txt", "--out", "small"], "--vocabulary is nowhere.txt, which cannot be read"),
        (["--vocabulary", "corpus.txt", "--out", "model"], "--out is model, which exists already"),
        (["--vocabulary", "corpus.txt", "--min-count", "0", "--out", "small"], "--min-count is 0; give 1 or more"),
        (["--vocabulary", "task", "--out", "small"], "its task is not known; say it"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(command, model, corpus, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    result = command("trim", "model", *arguments)
    assert result.code == 2
    assert said in result.err
    assert not (tmp_path / "small").exists()
