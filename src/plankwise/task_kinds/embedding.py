"""Embedding: texts without labels; a successor is to give each the vector that its predecessor gives it.

The score is `neighbours`: of a held-out text's ten nearest among all held-out texts, the share that the predecessor finds, too; the
predecessor's own is 1. Beside it stand the mean cosine of both models' vectors and Spearman's correlation of the similarities of
all pairs. It is the score since it is what is asked of vectors in use, which texts come first; since it does not flatter where all
texts are alike to a model (a cosine does: unrelated texts often have 0.7); and since it is a mean over texts, so that two models
can be compared text by text. It depends on how many texts there are to be confused with: compare it on the same texts only.

Files that are measured beside (STS, retrieval) never choose weights: `score_outputs` knows nothing of them.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import torch
from rich.console import Console
from torch import nn
from transformers import AutoModel

from plankwise.config import RunConfig
from plankwise.context import own_device
from plankwise.data.corpus import held_out, read_shard
from plankwise.data.encode import Encoded
from plankwise.data.quotes import Tally
from plankwise.data.retrieval import Retrieval, Similarities, read_retrieval, read_similarities
from plankwise.data.split import kept_out_share
from plankwise.errors import ConfigError, DataError, RunError
from plankwise.evaluation.error_view import ErrorView
from plankwise.evaluation.errors import MODELS
from plankwise.evaluation.guards import MAJORITY, enforce
from plankwise.evaluation.predict import predict
from plankwise.evaluation.vectors import (
    NEIGHBOURS,
    compare_pairs,
    find_neighbours,
    mean_cosine,
    score_retrieval,
    score_similarity,
    share_kept,
    unit,
)
from plankwise.kinds import load_kind
from plankwise.models.loading import Loaded, Loader
from plankwise.models.sentences import VECTORS, SentenceFiles, load_sentence_encoder, prepare, read_sentence_files
from plankwise.record import Shown
from plankwise.runtimes import Predictor
from plankwise.runtimes.torch import TorchPredictor
from plankwise.task_kinds import Answers, Draw, Examined, Imitation, Loss, PlainTexts, Task, weighted_means
from plankwise.task_kinds._embedding_errors import compare_neighbours
from plankwise.task_kinds._embedding_predictions import PREDICTIONS, predict_table, predict_tests
from plankwise.task_kinds._encoding import encode_table
from plankwise.task_kinds._unlabelled import find_texts, refuse_solved_head

__all__ = ["PREDICTIONS", "Embedding", "auto_class", "predict_table", "predict_tests", "preview", "read"]

DEV, SCORE = "dev", "neighbours"
TRAIN, FITTED, SENTENCES, QUERIES, CORPUS = "train", "fitted", "sts", "queries", "corpus"  # names of other texts
FEWEST = 2 * NEIGHBOURS  # held-out texts: with no more than the neighbours, all of them are
MOST_FITTED = 10_000  # texts whose vectors others than transformers are fitted to
ALIKE = 1e-4  # 1 − cosine of texts on average, below which a model tells none from another


class Embedding(Task):
    """Texts for one tokenizer, and what two models' vectors of them have in common."""

    kind = "embedding"
    score_names = (SCORE,)
    gives_classes = False
    needs_tokens = None
    shown = Shown(f"{NEIGHBOURS} neighbours kept", unit="texts", pipeline="sentence-similarity")

    def __init__(self, config: RunConfig, tokenizer: Any, console: Console) -> None:
        options: Any = config.task
        self.options, self.config, self.console = options, config, console
        self.tokenizer = tokenizer
        self.name = Path(options.path).stem
        self.max_length = config.training.max_length
        self.batch_size = config.evaluation.batch_size
        self.files = self._find_files() or SentenceFiles()
        self.prompt = self.files.prompt if options.prompt is None else options.prompt
        self.similarities: Similarities | None = None
        self.retrieval: Retrieval | None = None
        if options.sts is not None:
            self.similarities = read_similarities(options.sts, "task.sts")
        if options.retrieval is not None:
            self.retrieval = read_retrieval(options.retrieval, options.retrieval_split, "task.retrieval")
        self.beside = (
            "cosine",
            "pairs_spearman",
            *(("sts_spearman",) if self.similarities else ()),
            *(("ndcg@10", "recall@10") if self.retrieval else ()),
        )
        self.notes: tuple[str, ...] = ()
        self.train_texts, self.dev_texts = self._read()
        self.encoded: dict[str, Encoded] = {}  # by name; see `_encoded_for`
        self.own_encoded = WeakKeyDictionary[Any, dict[str, Encoded]]()  # by tokenizer of a model with other tokens
        self.dev = {DEV: self._encoded_for(DEV, None)}
        self.imitation = Imitation(_read_vectors, _distance)
        if config.evaluation.choose_on == "train":
            self.choosing = self.with_held_out(
                dev_texts=self._keep_out(config.run.seed_of_data + 1), encoded={}, own_encoded=WeakKeyDictionary()
            )
            self.choosing.dev = {DEV: self.choosing.held_out_for(None)}

    def _keep_out(self, seed: int) -> list[str]:
        """Takes a tenth of the training texts, drawn by the seed, out of them."""
        texts = self.train_texts
        count = round(kept_out_share(len(texts)) * len(texts))
        if count < FEWEST:
            raise DataError(
                f"evaluation.choose_on is 'train', which keeps {count} of {len(texts)} training texts out to choose by, but "
                f"{FEWEST} are needed to find neighbours; add texts, or set evaluation.choose_on = 'dev'"
            )
        taken = set(np.random.default_rng(seed).permutation(len(texts))[:count].tolist())
        self.train_texts = [text for row, text in enumerate(texts) if row not in taken]
        return [text for row, text in enumerate(texts) if row in taken]

    def _find_files(self) -> SentenceFiles | None:
        """What the model says of prompts and lengths; an export says nothing, but the reference that it was made from."""
        own, reference = read_sentence_files(self.config.predecessor.path), self.options.reference
        return own if own is not None or reference is None else read_sentence_files(reference)

    @cached_property
    def train(self) -> Encoded:  # type: ignore[override]
        """Encoded when it is first asked for: scoring never does."""
        return self._encoded_for(TRAIN, None)

    def training_texts(self) -> pa.ChunkedArray:
        """Behind the prompt, as they are encoded."""
        texts = prepare(self.train_texts, self.prompt, lower=self.files.lower)
        return pa.chunked_array([pa.array(texts, pa.large_string())])

    def plain_texts(self) -> PlainTexts:
        some = self.train_texts[:MOST_FITTED]

        def targets() -> np.ndarray:
            return self._vectors(self._open_reference(), FITTED)

        return PlainTexts([(text,) for text in some], targets, {DEV: self.texts(len(self.dev_texts))}, VECTORS)

    def load(self, loader: Loader, path: str) -> Loaded:
        squared = self.options.loss == "squared"
        return Loaded(load_sentence_encoder(loader, path, pooling=self.options.pooling, squared=squared))

    def outputs(self, predictor: Predictor) -> Answers:
        return {DEV: self._vectors(predictor, DEV)}

    def held_out_for(self, tokenizer: Any) -> Encoded:
        return self._encoded_for(DEV, tokenizer)

    def score(self, predictor: Predictor) -> dict[str, float]:
        return self.examine(predictor).metrics

    def examine(self, predictor: Predictor) -> Examined:
        outputs = self.outputs(predictor)
        found = self.score_outputs(outputs)
        score = found.pop("score")
        return Examined({**found, **self._measure_beside(predictor), "score": score}, None, outputs)

    def score_outputs(self, outputs: Answers) -> dict[str, float]:
        vectors = outputs[DEV]
        kept = float(self._kept(vectors).mean())
        found = {SCORE: kept, "cosine": mean_cosine(vectors, self.reference)}
        return {**found, "pairs_spearman": compare_pairs(vectors, self.reference), "score": kept}

    def score_samples(self, outputs: Answers, draw: Draw) -> np.ndarray:
        return weighted_means(self._kept(outputs[DEV]), draw)

    def differences(self, first: Sequence[Answers], second: Sequence[Answers], masks: Answers) -> np.ndarray:
        ours, theirs = (np.mean([self._kept(seed[DEV]) for seed in side], axis=0) for side in (first, second))
        signs = np.where(masks[DEV], -1.0, 1.0)
        return signs @ (ours - theirs) / len(ours)

    @cached_property
    def reference(self) -> np.ndarray:
        """The vectors of dev (N, D) that others are compared with: the predecessor's, or those of task.reference."""
        return self._vectors(self._open_reference(), DEV)

    def _open_reference(self) -> Predictor:
        path = self.options.reference or self.config.predecessor.path
        predictor = TorchPredictor(self.load(self._loader, path).model)
        predictor.tokenizer = self._reference_tokenizer
        return predictor

    @cached_property
    def _reference_tokenizer(self) -> Any:
        """The reference's own tokenizer, if it has other tokens than the task's."""
        path = self.options.reference
        if path is None or path == self.config.predecessor.path:
            return None
        found = self._loader.tokenizer(path)
        return None if found.get_vocab() == self.tokenizer.get_vocab() else found

    @property
    def _loader(self) -> Loader:
        return Loader(self.config.predecessor.remote_code, own_device())

    @cached_property
    def _reference_neighbours(self) -> np.ndarray:
        return find_neighbours(self.reference)

    def _kept(self, vectors: np.ndarray) -> np.ndarray:
        """The share of neighbours that each dev text keeps, (N,)."""
        if vectors.shape != self.reference.shape:
            raise RunError(
                f"vectors have {vectors.shape[1]} numbers, those of the reference {self.reference.shape[1]}, so that they cannot "
                "be compared; set task.reference to the model that this one was made from"
            )
        return share_kept(find_neighbours(vectors), self._reference_neighbours)

    def view_errors(self, open_model: Callable[[str], Predictor]) -> ErrorView:
        before, after = (find_neighbours(self.outputs(open_model(name))[DEV]) for name in MODELS)
        return compare_neighbours(self.dev_texts, self._reference_neighbours, before, after)

    def _measure_beside(self, predictor: Predictor) -> dict[str, float]:
        """What the files say that are measured beside."""
        found: dict[str, float] = {}
        if self.similarities is not None:
            vectors = self._vectors(predictor, SENTENCES)
            scores = {
                name: score_similarity(vectors, pairs, wanted)
                for name, (pairs, wanted) in self.similarities.files.items()
            }
            found["sts_spearman"] = float(np.mean(list(scores.values())))
            if len(scores) > 1:
                found |= {f"sts_{name}": value for name, value in scores.items()}
        if self.retrieval is not None:
            queries, corpus = (self._vectors(predictor, name) for name in (QUERIES, CORPUS))
            found |= score_retrieval(queries, corpus, self.retrieval.relevant)
        return found

    def _vectors(self, predictor: Predictor, name: str) -> np.ndarray:
        """Of the texts of that name, (N, D) in their order."""
        own = predictor.tokenizer
        tokenizer = self.tokenizer if own is None else own
        return predict(predictor, self._encoded_for(name, own), tokenizer, self.batch_size, output=VECTORS)

    def _encoded_for(self, name: str, own: Any) -> Encoded:
        """The texts of a name as a tokenizer encodes them, once for each; None stands for the task's."""
        encoded = self.encoded if own is None else self.own_encoded.setdefault(own, {})
        if name not in encoded:
            tokenizer = self.tokenizer if own is None else own
            texts, prompt = self._texts_of(name)
            # What is measured beside is cut where whoever uses the model cuts texts, not where training does.
            beside = name in (SENTENCES, QUERIES, CORPUS)
            length = self.files.length(tokenizer, self.max_length) if beside else self.max_length
            table = pa.table({"text": prepare(texts, prompt, lower=self.files.lower)})
            encoded[name] = encode_table(name, table, tokenizer, length, self.console, own=own is not None)
        return encoded[name]

    def _texts_of(self, name: str) -> tuple[Sequence[str], str]:
        """The texts of a name, and the prompt that stands before them; the predecessor has some for queries and documents."""
        if name == SENTENCES:
            assert self.similarities is not None
            return self.similarities.texts, self.files.prompt
        if name == QUERIES:
            assert self.retrieval is not None
            return self.retrieval.queries, self.files.prompt_for("query")
        if name == CORPUS:
            assert self.retrieval is not None
            return self.retrieval.corpus, self.files.prompt_for("document", "passage", "corpus")
        found = {DEV: self.dev_texts, TRAIN: self.train_texts, FITTED: self.train_texts[:MOST_FITTED]}
        return found[name], self.prompt

    def texts(self, most: int) -> list[tuple[str, ...]]:
        return [(text,) for text in self.dev_texts[:most]]

    def encode(self, texts: list[tuple[str, ...]], tokenizer: Any = None) -> Any:
        prepared = prepare([text for (text,) in texts], self.prompt, lower=self.files.lower)
        return super().encode([(text,) for text in prepared], tokenizer)

    def answer(self, outputs: Any) -> Any:
        return outputs[VECTORS].tolist()

    def check_config(self, config: RunConfig) -> None:
        method: Any = config.method
        module = load_kind("methods", method.name, key="method.name")
        if not getattr(module, "IMITATES", False):
            raise ConfigError(
                f"method.name is {method.name!r}, which needs labels or logits, but the task is on vectors; use replacing, solve, "
                "kd or finetune"
            )
        if getattr(method, "alpha", 0) and method.name != "kd":
            raise ConfigError(
                f"method.alpha is {method.alpha:g}, a weight of the predecessor's logits, but the task is on vectors, which are "
                "the loss already; leave it at 0"
            )
        refuse_solved_head(config, "on vectors")
        if config.predecessor.finetune is True:
            raise ConfigError(
                "predecessor.finetune is true, but the task is on vectors, which has no labels to train a predecessor on; leave "
                "it out"
            )
        if share := config.training.quantising.share:
            raise ConfigError(
                f"training.quantising.share is {share:g}, but training for int8 is not offered for vectors; leave it out, and "
                "export to int8 afterwards"
            )
        limit = self.files.max_length
        if limit is not None and self.max_length > limit:
            raise ConfigError(
                f"training.max_length is {self.max_length}, but {config.predecessor.path} cuts texts at {limit} tokens; choose "
                f"4 to {limit}"
            )

    def check_predecessor(self, predictor: Predictor, path: str, *, given: bool = False) -> dict[str, str]:
        vectors = unit(self.outputs(predictor)[DEV])
        if not np.isfinite(vectors).all():
            raise RunError(f"the vectors of the predecessor {path} are not finite numbers; give another model")
        if 1 - np.square(vectors.mean(axis=0)).sum() >= ALIKE:
            return {}
        fault = (
            f"the predecessor {path} gives all held-out texts the same vector; there is nothing to keep: give another model, or "
            "another task.pooling"
        )
        return enforce({MAJORITY: fault}, self.config.evaluation.ignore_guards)

    def to_json(self) -> dict:
        pooling = self.options.pooling or " and ".join(self.files.pooling)
        facts = [["pooling", pooling], ["loss", self.options.loss]]
        facts += [["prompt", self.prompt]] if self.prompt else []
        if self.similarities is not None:
            count = sum(len(scores) for _, scores in self.similarities.files.values())
            facts.append(["measured beside", f"{count:,} pairs of sentences with scores"])
        if self.retrieval is not None:
            sizes = f"{len(self.retrieval.queries):,} queries on {len(self.retrieval.corpus):,} documents"
            facts.append(["measured beside", sizes])
        return {
            "name": self.name,
            "score": list(self.score_names),
            "train": len(self.train_texts),
            "dev": {DEV: len(self.dev_texts)},
            "facts": facts,
            "notes": list(self.notes),
            "cut": {"train": self.train.num_cut, DEV: self.dev[DEV].num_cut},
        }

    def _read(self) -> tuple[list[str], list[str]]:
        """The texts of train and of dev, none of them twice."""
        options, seed, tally = self.options, self.config.run.seed_of_data, Tally()
        train: dict[str, None] = {}
        dev: dict[str, None] = {}
        if options.dev is not None:
            for shard in find_texts(options, options.dev, "task.dev", seed):
                dev |= dict.fromkeys(read_shard(shard, tally.add))
            dev = dict.fromkeys(list(dev)[: options.dev_limit])
        for shard in find_texts(options, options.path, "task.path", seed):
            for text in read_shard(shard, tally.add):
                if options.dev is None and held_out(text, options.dev_share, seed):
                    if options.dev_limit is None or len(dev) < options.dev_limit:
                        dev[text] = None
                elif text not in dev and (options.train_limit is None or len(train) < options.train_limit):
                    train[text] = None
            if options.train_limit == len(train) and (options.dev is not None or options.dev_limit == len(dev)):
                break
        self.notes = tally.notes
        for note in tally.notes:
            self.console.print(note, soft_wrap=True)
        if len(dev) < FEWEST or not train:
            raise DataError(
                f"{options.path} gives {len(train)} texts to train on and {len(dev)} held-out ones, of which {FEWEST} are needed "
                "to find neighbours; add texts, change task.dev_share or task.dev_limit, or give task.dev"
            )
        return list(train), list(dev)


def _read_vectors(model: nn.Module, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {VECTORS: model(**inputs)[VECTORS]}


def _distance(targets: Any) -> Loss:
    """The model's own distance from the predecessor's vectors."""

    def loss(model: nn.Module, inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        return model(**inputs, target=targets.take(VECTORS, rows))["loss"]

    return loss


def auto_class(options: Any) -> Any:
    return AutoModel


def read(config: RunConfig, tokenizer: Any, console: Console) -> Embedding:
    """Reads, splits and encodes the texts, and what is measured beside.

    Raises:
        PlankwiseError: they cannot be read, or the predecessor's files are not what is known here.
    """
    return Embedding(config, tokenizer, console)


def preview(options: Any) -> Any:
    """The options with as few texts as will do to look at a plan, some of them kept out to choose by."""
    return options.model_copy(update={"train_limit": 10 * FEWEST, "dev_limit": 64})
