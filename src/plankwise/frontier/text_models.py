"""Models of texts that are not transformers: what a user would pick instead. Fitted in seconds, written without pickle.

`tfidf`: words and pairs of words weighted by TF-IDF. `static`: token embeddings distilled by model2vec (Minish Lab 2024; the extra
`static`) from the predecessor or another encoder, and averaged. Both under a logistic regression, by scikit-learn; where vectors
are wanted, not classes, under a ridge regression onto the predecessor's.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from plankwise.errors import ConfigError, MissingExtraError
from plankwise.files import whole_folder
from plankwise.runtimes import Batch, Outputs, Predictor
from plankwise.task_kinds import PlainTexts

HEAD, WORDS, WEIGHTS = "head.npz", "words.json", "tfidf.npz"
SEPARATOR = "\n"  # between the texts of a pair
STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # of the regression, chosen by cross-validation
FOLDS = 3


def join_columns(*columns: Sequence[str], **ignored: Any) -> dict[str, list[str]]:
    """In the place of a tokenizer: the texts themselves."""
    return {"texts": join_texts(list(zip(*columns, strict=True)))}


def join_texts(texts: Sequence[tuple[str, ...]]) -> list[str]:
    """Each text, or both of a pair, as one."""
    return [SEPARATOR.join(parts) for parts in texts]


class TextPredictor(Predictor, ABC):
    """A regression on features of texts; `folder` holds it."""

    tokenizer = staticmethod(join_columns)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.device = torch.device("cpu")
        with np.load(folder / HEAD, allow_pickle=False) as arrays:
            self.weights, self.bias = arrays["weights"], arrays["bias"]
            self.output = str(arrays.get("output", "logits"))

    @abstractmethod
    def features(self, texts: list[str]) -> Any:
        """(B, D)."""

    def predict(self, texts: list[str]) -> np.ndarray:
        """Logits, or vectors, (B, C)."""
        return np.asarray(self.features(texts) @ self.weights + self.bias)

    def __call__(self, inputs: Batch, chosen: torch.Tensor | None = None) -> Outputs:
        return {self.output: torch.from_numpy(self.predict(inputs["texts"]))}  # type: ignore[arg-type]

    @property
    def size_mb(self) -> float:
        return sum(file.stat().st_size for file in self.folder.iterdir()) / 1e6


class TfidfPredictor(TextPredictor):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.vectorizer = _vectorizer(vocabulary=json.loads((folder / WORDS).read_text("utf-8")))
        with np.load(folder / WEIGHTS, allow_pickle=False) as arrays:
            self.vectorizer.idf_ = arrays["idf"]

    def features(self, texts: list[str]) -> Any:
        return self.vectorizer.transform(texts)


class StaticPredictor(TextPredictor):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from model2vec import StaticModel

        self.model = StaticModel.from_pretrained(folder)

    def features(self, texts: list[str]) -> Any:
        return self.model.encode(texts, show_progress_bar=False)


def fit_tfidf(given: PlainTexts, folder: Path) -> None:
    """Writes the classifier of these texts to a folder, whole or not at all."""
    vectorizer = _vectorizer(max_features=100_000)
    features = vectorizer.fit_transform(join_texts(given.train))
    words = {word: int(index) for word, index in vectorizer.vocabulary_.items()}
    with whole_folder(folder) as part:
        (part / WORDS).write_text(json.dumps(words, ensure_ascii=False), "utf-8")
        np.savez(part / WEIGHTS, idf=vectorizer.idf_)
        _fit_head(features, given, part)


def fit_static(model: Any, tokenizer: Any, given: PlainTexts, folder: Path) -> None:
    """Distils the encoder of a model into static embeddings and writes a regression on them, whole or not at all.

    Raises:
        MissingExtraError: model2vec is not installed.
        ConfigError: it cannot distil this model.
    """
    check_static()
    from model2vec import StaticModel
    from model2vec.distill import distill_from_model

    # A model that plankwise pools itself keeps its encoder under `model`.
    encoder = getattr(model, getattr(model, "base_model_prefix", "model"), model)
    try:
        with redirect_stderr(StringIO()):  # its progress bar
            static = distill_from_model(encoder, tokenizer, pca_dims=256, device="cpu", quantize_to="float32")
    except Exception as error:  # of another library, for a family that it does not know
        raise ConfigError(f"model2vec cannot distil this model ({type(error).__name__}: {error})") from error
    with whole_folder(folder) as part:
        static.save_pretrained(part)
        # What was distilled and what is read back do not give the same vectors: the head is for the latter.
        static = StaticModel.from_pretrained(part)
        _fit_head(static.encode(join_texts(given.train), show_progress_bar=False), given, part)


def check_static() -> None:
    """Raises MissingExtraError if model2vec is not installed."""
    try:
        import model2vec  # noqa: F401
    except ImportError:
        raise MissingExtraError("a static embedding model", "model2vec", "static") from None


def _vectorizer(**options: Any) -> TfidfVectorizer:
    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, dtype=np.float32, **options)


def _fit_head(features: Any, given: PlainTexts, folder: Path) -> None:
    targets = given.targets()
    weights, bias = _map(features, targets) if given.classes is None else _classify(features, targets, given.classes)
    np.savez(folder / HEAD, weights=weights, bias=bias, output=np.array(given.output))


def _map(features: Any, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A ridge regression with its strength by leaving out one text at a time."""
    from sklearn.linear_model import RidgeCV

    fitted = RidgeCV(alphas=STRENGTHS).fit(features, vectors)
    return fitted.coef_.T.astype(np.float32), fitted.intercept_.astype(np.float32)


def _classify(features: Any, labels: np.ndarray, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """A logistic regression with its strength by cross-validation; a class that no text has is never the answer."""
    from sklearn.model_selection import cross_val_score

    def regression(strength: float) -> LogisticRegression:
        return LogisticRegression(C=strength, max_iter=1000)

    rarest = int(np.unique(labels, return_counts=True)[1].min())
    best = 1.0
    if rarest >= FOLDS:
        scores = {one: cross_val_score(regression(one), features, labels, cv=FOLDS).mean() for one in STRENGTHS}
        best = max(scores, key=scores.__getitem__)
    fitted = regression(best).fit(features, labels)
    found, weights, bias = fitted.classes_, fitted.coef_.T, fitted.intercept_
    if len(found) == 2:  # scikit-learn keeps the second class's logit alone
        weights, bias = np.hstack([np.zeros_like(weights), weights]), np.array([0.0, bias[0]])
    whole = np.zeros((features.shape[1], num_classes), np.float32)
    whole[:, found] = weights
    shift = np.full(num_classes, -1e9, np.float32)
    shift[found] = bias
    return whole, shift
