"""Models of texts that are not transformers: fitted, written without pickle, read back, timed as any predictor."""

import numpy as np
import pytest
import torch

from plankwise.errors import MissingExtraError
from plankwise.frontier import text_models
from plankwise.frontier.text_models import StaticPredictor, TfidfPredictor, fit_static, fit_tfidf, join_columns
from plankwise.task_kinds import PlainTexts


@pytest.fixture(scope="module")
def examples(tiny):
    rows = tiny.make_rows(48)
    return [text for text, _ in rows], np.array([label == "positive" for _, label in rows], int)


def given(texts, labels, classes):
    return PlainTexts([(text,) for text in texts], lambda: labels, {}, classes=classes)


def test_tfidf_learns_words_and_gives_the_same_answers_after_it_is_read_back(examples, tmp_path):
    texts, labels = examples
    fit_tfidf(given(texts, labels, 2), tmp_path / "model")
    predictor = TfidfPredictor(tmp_path / "model")
    logits = predictor.predict(texts)
    assert logits.shape == (48, 2)
    assert (logits.argmax(1) == labels).mean() > 0.95
    batch = predictor.tokenizer(texts[:3], truncation=True, return_tensors="pt")
    assert torch.equal(predictor(batch)["logits"], torch.from_numpy(logits[:3]))
    assert np.array_equal(TfidfPredictor(tmp_path / "model").predict(texts), logits)
    assert predictor.size_mb == sum(file.stat().st_size for file in (tmp_path / "model").iterdir()) / 1e6
    assert {file.suffix for file in (tmp_path / "model").iterdir()} == {".json", ".npz"}


def test_a_class_that_no_text_has_is_never_the_answer(examples, tmp_path):
    texts, labels = examples
    fit_tfidf(given(texts, 2 * labels, 3), tmp_path / "model")
    logits = TfidfPredictor(tmp_path / "model").predict(texts)
    assert logits.shape == (48, 3)
    assert set(logits.argmax(1)) == {0, 2}


def test_three_classes_have_their_own_logits(tmp_path):
    words = ("red", "green", "blue")
    texts = [f"{words[index % 3]} thing {index // 3}" for index in range(30)]
    labels = np.arange(30) % 3
    fit_tfidf(given(texts, labels, 3), tmp_path / "model")
    assert (TfidfPredictor(tmp_path / "model").predict(texts).argmax(1) == labels).all()


def test_the_texts_of_a_pair_are_joined():
    assert join_columns(["a", "b"], ["c", "d"], padding=True) == {"texts": ["a\nc", "b\nd"]}


def test_static_embeddings_of_a_classifier_are_distilled_and_read_back(examples, tiny_expert_folder, tmp_path):
    from plankwise.models.loading import Loader

    texts, labels = examples
    loader = Loader()
    model, tokenizer = loader.trained(str(tiny_expert_folder)), loader.tokenizer(str(tiny_expert_folder))
    fit_static(model, tokenizer, given(texts, labels, 2), tmp_path / "model")
    predictor = StaticPredictor(tmp_path / "model")
    assert (predictor.predict(texts).argmax(1) == labels).mean() > 0.9
    assert np.allclose(StaticPredictor(tmp_path / "model").predict(texts), predictor.predict(texts))


def test_the_head_of_static_embeddings_is_fitted_on_what_is_read_back(
    examples, tiny_expert_folder, tmp_path, monkeypatch
):
    from model2vec import StaticModel

    from plankwise.models.loading import Loader

    loader, (texts, labels) = Loader(), examples
    seen = []
    encode = StaticModel.encode
    monkeypatch.setattr(StaticModel, "encode", lambda self, *a, **k: seen.append(encode(self, *a, **k)) or seen[-1])
    model, tokenizer = loader.trained(str(tiny_expert_folder)), loader.tokenizer(str(tiny_expert_folder))
    fit_static(model, tokenizer, given(texts, labels, 2), tmp_path / "model")
    assert np.array_equal(seen[-1], StaticPredictor(tmp_path / "model").features(texts))


def test_static_embeddings_are_mapped_onto_vectors_that_they_can_give_exactly(tiny_expert_folder, tiny, tmp_path):
    from plankwise.models.loading import Loader

    loader, texts = Loader(), [text for text, _ in tiny.make_rows(48)]
    model, tokenizer = loader.trained(str(tiny_expert_folder)), loader.tokenizer(str(tiny_expert_folder))
    fit_static(model, tokenizer, given(texts, np.arange(48) % 2, 2), tmp_path / "first")
    wanted = 3 * StaticPredictor(tmp_path / "first").features(texts) - 1
    vectors = PlainTexts([(text,) for text in texts], lambda: wanted, {}, "sentence_embedding")
    fit_static(model, tokenizer, vectors, tmp_path / "model")
    predictor = StaticPredictor(tmp_path / "model")
    found = predictor(predictor.tokenizer(texts))["sentence_embedding"].numpy()
    assert np.square(found - wanted).mean() < 0.1 * wanted.var()


def test_without_model2vec_static_embeddings_say_how_to_install_it(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "model2vec", None)
    with pytest.raises(
        MissingExtraError, match=r"needs the package model2vec; install it with: pip install plankwise\[static\]"
    ):
        text_models.check_static()
