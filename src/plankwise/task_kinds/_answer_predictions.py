"""What `plankwise predict` writes of a model that answers questions: answers to a table's questions as a csv, or to the task's test
file as SQuAD's scripts read them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from transformers import AutoModelForQuestionAnswering

from plankwise.config import RunConfig
from plankwise.data.pieces import Layout, Piece
from plankwise.data.squad import Question, read_squad
from plankwise.errors import ConfigError
from plankwise.files import write_text
from plankwise.models.limits import check_length
from plankwise.models.loading import Loader
from plankwise.runtimes import open_predictor
from plankwise.task_kinds._prediction_rows import check_columns, check_file, find_test, read_texts, write_beside
from plankwise.task_kinds._windows import choose_answers, encode_windows, find_spans, find_stride


class Answerer:
    """A trained model with its tokenizer."""

    def __init__(self, config: RunConfig, loader: Loader) -> None:
        path = config.predecessor.path
        if not any("ForQuestionAnswering" in name for name in loader.config(path).architectures or ()):
            raise ConfigError(
                f"{path} has no trained head for answers in texts; give the successor/ or predecessor/ folder of a run on them"
            )
        self.options: Any = config.task
        self.tokenizer = loader.tokenizer(path)
        self.max_length, self.batch_size = config.training.max_length, config.evaluation.batch_size
        check_length(self.max_length, loader.outline(path, AutoModelForQuestionAnswering), self.tokenizer, path)
        self.stride = find_stride(self.options.stride, self.tokenizer, self.max_length)
        self.predictor = open_predictor(config.evaluation.runtime, path, loader.trained)

    def answer(self, questions: Sequence[Question]) -> list[tuple[str, float]]:
        """Each question's answer and its score; always a span of the text."""
        windows = encode_windows(questions, self.tokenizer, self.max_length, self.stride)
        longest = self.options.longest_answer
        spans = find_spans(self.predictor, windows, self.tokenizer, self.batch_size, longest)
        answers, scores = choose_answers(spans, windows, questions, may_be_none=False)
        return list(zip(answers, scores.tolist(), strict=True))


def predict_table(
    config: RunConfig, loader: Loader, path: Path, texts: list[str], layout: Layout, out: Path, console: Console
) -> list[Path]:
    """Writes a CSV with all columns of the table, then the answer to each question and its score.

    Raises:
        PlankwiseError: the model or the table cannot be used.
    """
    check_columns(texts, 2, "name the column of the questions, then that of the texts")
    check_file(out)
    answerer, piece = Answerer(config, loader), Piece(path, layout)
    table = read_texts(piece, texts, console)
    columns = [table[name].to_pylist() for name in texts]
    questions = [
        Question(str(row), "", context, question, (), ())
        for row, (question, context) in enumerate(zip(*columns, strict=True))
    ]
    found = answerer.answer(questions)
    cells = ([answer, f"{score:.6f}"] for answer, score in found)
    write_beside(out, piece, ["answer", "score"], cells, len(found), console)
    return [out]


def predict_tests(config: RunConfig, loader: Loader, out: Path, console: Console) -> list[Path]:
    """Answers the task's test file into the folder `out`: a JSON object of answers by the questions' ids.

    Raises:
        PlankwiseError: the task has no test file, or the model does not fit.
    """
    options: Any = config.task
    test = find_test(options, out, "questions, or give --table and --text twice")
    questions = read_squad(test, key="task.test", answers=False)
    found = Answerer(config, loader).answer(questions)
    path = out / f"{Path(test).stem}.json"
    answers = {question.id: answer for question, (answer, _) in zip(questions, found, strict=True)}
    write_text(path, json.dumps(answers, ensure_ascii=False, indent=1) + "\n")
    return [path]
