"""The points of a frontier: a model as a runtime runs it in a precision, with all of its vocabulary or with what the task needs.

Each is written, scored and sized once; what was found stands in a file beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plankwise.evaluation.held_back import HALVES
from plankwise.export import choose, export_traced, prepare
from plankwise.files import read_as, write_text
from plankwise.frontier.models import INSTEAD, Made
from plankwise.frontier.text_models import TextPredictor, join_texts
from plankwise.kinds import load_kind
from plankwise.models.saving import save
from plankwise.models.vocabulary import trim
from plankwise.run.inputs import Run
from plankwise.run.vocabulary import TASK, gather_texts
from plankwise.runtimes import Predictor, open_predictor
from plankwise.task_kinds import Answers

TORCH, INT8, FP32 = "torch", "int8", "fp32"
TRIMMED = "trimmed"
RESAMPLES = 300  # of dev, for a score's interval
LEVEL = 0.95


@dataclass(frozen=True)
class Point:
    """A model as it is run."""

    model: str
    runtime: str
    precision: str = FP32
    trimmed: bool = False  # to the vocabulary that the recipe asks for, or else that of the task's training texts

    @property
    def name(self) -> str:
        return "-".join([self.model, self.runtime, self.precision, *([TRIMMED] if self.trimmed else [])])


@dataclass(frozen=True)
class Found:
    """What a point is worth but for its speed."""

    point: Point
    kind: str  # of model
    path: str
    score: float
    interval: tuple[float, float] | None  # of the score, 95 %; None if the kind of task cannot tell, as below
    halves: tuple[float, float] | None  # the score on two fixed halves of dev
    size_mb: float
    seconds: float | None  # that making the model took


def list_points(made: Made, formats: Sequence[str], *, trimmed: bool) -> Iterator[Point]:
    """The points of a model: in torch, and by each format in fp32 and int8, the latter also with a trimmed vocabulary."""
    name = made.entry.name
    yield Point(name, TORCH)
    if made.entry.open_text is not None:
        return
    for format in formats:
        if made.entry.kind != INSTEAD:
            yield Point(name, format)
        yield Point(name, format, INT8)
        if trimmed:
            yield Point(name, format, INT8, trimmed=True)


class Points:
    """The points of one task's models, in a folder."""

    def __init__(self, run: Run, folder: Path) -> None:
        self.run, self.folder = run, folder
        self._traced: tuple[Path, Any] | None = (
            None  # the last model that was exported: its precisions follow one another
        )

    def find(self, point: Point, made: Made) -> Found:
        """The point, made and measured if it is not there yet."""
        file = self.folder / f"{point.name}.json"
        if file.is_file():
            return read_as(file, Found)
        path = self._write(point, made)
        predictor = self.open(point, path, made)
        score, outputs = self._score(predictor)
        found = Found(
            point,
            made.entry.kind,
            str(path),
            score,
            self._interval(outputs),
            self._halves(outputs),
            predictor.size_mb,
            made.seconds,
        )
        write_text(file, json.dumps(asdict(found), indent=2))
        return found

    def open(self, point: Point, path: str | Path, made: Made) -> Predictor:
        """What predicts as the point says."""
        if made.entry.open_text is not None:
            return made.entry.open_text(Path(path))
        predictor = open_predictor(point.runtime, str(path), self.run.load)
        predictor.tokenizer = self.run.own_tokenizer(str(path))
        return predictor

    def _write(self, point: Point, made: Made) -> Path:
        """Where the point's model stands; exported, or trimmed, on the way."""
        source = made.path
        if point.trimmed:
            source = self.folder / f"{point.model}-{TRIMMED}"
            if not source.exists():
                plan = self.run.config.plan
                texts = gather_texts(plan.vocabulary or [TASK], self.run.task)
                small = trim(
                    self.run.load(str(made.path)),
                    self._tokenizer(made.path),
                    texts,
                    min_count=plan.vocabulary_min_count,
                )
                save(small.model, source, small.tokenizer)
        if point.runtime == TORCH:
            return source
        place = self.folder / point.name
        if not place.exists():
            kind: Any = load_kind("export", point.runtime, key="format")
            kind.check_installed()
            how = choose(point.runtime, point.precision, None)
            export_traced(
                self._trace(source), place, point.runtime, how, max_length=self.run.config.training.max_length
            )
        return place

    def _trace(self, path: Path) -> Any:
        """A model as formats are written from it."""
        if self._traced is None or self._traced[0] != path:
            self._traced = None  # one model at a time
            self._traced = path, prepare(self.run.load(str(path)), self._tokenizer(path))
        return self._traced[1]

    def _tokenizer(self, path: Path) -> Any:
        own = self.run.own_tokenizer(str(path))
        return self.run.tokenizer if own is None else own

    def _score(self, predictor: Predictor) -> tuple[float, Answers]:
        """The score on dev, and the outputs that it is read off."""
        task = self.run.task
        outputs: dict[str, np.ndarray] = {}
        if not isinstance(predictor, TextPredictor):
            outputs = dict(task.outputs(predictor))
        elif (plain := task.plain_texts()) is not None:
            outputs = {name: predictor.predict(join_texts(texts)) for name, texts in plain.dev.items()}
        if outputs:
            return task.score_outputs(outputs)["score"], outputs
        examined = task.examine(predictor)
        return examined.metrics["score"], examined.outputs

    def _halves(self, outputs: Answers) -> tuple[float, float] | None:
        scores = self.run.task.score_halves(outputs)
        return (scores[HALVES[0]], scores[HALVES[1]]) if scores else None

    def _interval(self, outputs: Answers) -> tuple[float, float] | None:
        """By a percentile bootstrap over dev examples, the same ones for every point."""
        scores = self.run.task.resample(outputs, RESAMPLES)
        if not len(scores):
            return None
        low, high = np.quantile(scores, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return float(low), float(high)
