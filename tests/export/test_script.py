"""predict.py of an export, in a process in which only what it says it needs can be imported."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from exports import run_alone
from plankwise.errors import ConfigError
from plankwise.export import export_model


@pytest.mark.parametrize(("format", "runtime"), [("onnx", "onnxruntime"), ("openvino", "openvino")])
def test_it_needs_the_runtime_tokenizers_and_numpy_alone(format, runtime, models, tmp_path):
    folder = export_model(models.labels, models.tokenizer, tmp_path / "out", format=format, max_length=16)
    lines = run_alone(folder, runtime, "a fine film", "the plot was very dull and weak")
    assert [line.split("\t")[0] for line in lines] == ["positive", "negative"]
    texts = ["a fine film", "the plot was very dull and weak"]
    batch = models.tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        shares = models.labels(**batch).logits.softmax(-1).max(-1).values
    assert [float(line.split("\t")[1]) for line in lines] == pytest.approx(shares.tolist(), abs=6e-4)
    assert len((folder / "predict.py").read_text("utf-8").splitlines()) < 45


def test_a_masked_language_model_prints_the_likeliest_token_of_each_mask(models, tmp_path):
    folder = export_model(models.text, models.tokenizer, tmp_path / "out", max_length=16)
    (line,) = run_alone(folder, "onnxruntime", "the [MASK] was [MASK]")
    batch = models.tokenizer("the [MASK] was [MASK]", return_tensors="pt")
    with torch.no_grad():
        best = models.text(**batch).logits.argmax(-1)[batch["input_ids"] == models.tokenizer.mask_token_id]
    known = [models.tokenizer.convert_ids_to_tokens(int(one)) for one in best]
    assert line.split() == [str(token) for token in known]


@pytest.fixture(scope="module")
def words(models):
    """A tagger of four tags and a model of spans, each of one block, that give other answers for other words."""
    from transformers import BertConfig, BertForQuestionAnswering, BertForTokenClassification

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}
    tags = dict(enumerate(("O", "PER", "WORK", "END")))
    config = {**sizes, "vocab_size": len(models.tokenizer), "max_position_embeddings": 64, "initializer_range": 1.0}
    tagger = BertForTokenClassification(BertConfig(**config, id2label=tags, label2id={v: k for k, v in tags.items()}))
    return SimpleNamespace(tagger=tagger.eval(), spans=BertForQuestionAnswering(BertConfig(**config)).eval())


def test_a_tagger_prints_each_word_with_the_tag_of_its_first_piece(words, models, tmp_path):
    folder = export_model(words.tagger, models.tokenizer, tmp_path / "out", max_length=8)
    texts = ["the fine-film was dull", "a lovely end"]
    found = run_alone(folder, "onnxruntime", *texts)
    for line, text in zip(found, texts, strict=True):
        code = models.tokenizer(text.split(), is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            tags = words.tagger(**code).logits[0].argmax(-1).tolist()
        firsts = [code.word_ids().index(word) for word in range(len(text.split()))]
        wanted = [words.tagger.config.id2label[tags[place]] for place in firsts]
        assert line.split() == [f"{word}/{tag}" for word, tag in zip(text.split(), wanted, strict=True)]


def test_an_answer_is_found_in_all_windows_of_a_long_text(words, models, tmp_path):
    folder = export_model(words.spans, models.tokenizer, tmp_path / "out", max_length=16)
    text = "the film was dull and the plot a very lovely scene great music the end is fine and the actor superb"
    (line,) = run_alone(folder, "onnxruntime", "the end is", text)
    settings = {"truncation": "only_second", "max_length": 16, "stride": 4, "return_overflowing_tokens": True}
    code = models.tokenizer("the end is", text, **settings, padding=True, return_offsets_mapping=True)
    given = {name: torch.tensor(code[name]) for name in ("input_ids", "attention_mask", "token_type_ids")}
    with torch.no_grad():
        logits = words.spans(**given)
    spans = []
    for window, (starts, ends) in enumerate(zip(logits.start_logits, logits.end_logits, strict=True)):
        own = [place for place, part in enumerate(code.sequence_ids(window)) if part == 1]
        places = code["offset_mapping"][window]
        spans += [(float(starts[i] + ends[j]), places[i][0], places[j][1]) for i in own for j in own if i <= j]
    score, first, last = max(spans)
    assert len(logits.start_logits) > 2
    assert line.split("\t")[0] == text[first:last]
    assert float(line.split("\t")[1]) == pytest.approx(score, abs=2e-3)
    assert 'predict.py "a question" "its text"' in (folder / "README.md").read_text("utf-8")


def test_a_vector_is_of_the_text_behind_the_models_prompt(models, tmp_path):
    from plankwise.models.sentences import SentenceEncoder, SentenceFiles

    files = SentenceFiles(("mean",), prompts={"usual": "The film "}, default_prompt="usual", lower=True)
    encoder = SentenceEncoder(models.labels.bert, files).eval()
    folder = export_model(encoder, models.tokenizer, tmp_path / "out", max_length=16)
    (line,) = run_alone(folder, "onnxruntime", "was Fine")
    with torch.no_grad():
        wanted = encoder(**models.tokenizer("the film was fine", return_tensors="pt"))["sentence_embedding"][0]
    assert json.loads(line.split("\t")[0]) == pytest.approx(wanted.tolist(), abs=1e-4)


def test_a_model_that_writes_texts_is_refused(models, tmp_path):
    from transformers import MarianConfig, MarianMTModel

    sizes = {f"{side}_{key}": 1 for side in ("encoder", "decoder") for key in ("layers", "attention_heads", "ffn_dim")}
    ids = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": None}
    model = MarianMTModel(MarianConfig(vocab_size=25, d_model=8, max_position_embeddings=16, **sizes, **ids))
    with pytest.raises(ConfigError, match="MarianMTModel writes texts with a decoder, a token at a time"):
        export_model(model, models.tokenizer, tmp_path / "out")


def test_the_torch_formats_script_runs_too(models, tmp_path):
    folder = export_model(models.labels, models.tokenizer, tmp_path / "out", format="torch")
    done = subprocess.run(
        [sys.executable, folder / "predict.py", "a superb film"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("positive\t")
