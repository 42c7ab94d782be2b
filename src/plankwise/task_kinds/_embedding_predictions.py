"""What `plankwise predict` writes of a sentence encoder: the vectors of a table's texts, one row each, as a .npy file."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console

from plankwise.config import RunConfig
from plankwise.data.pieces import Layout, Piece
from plankwise.errors import ConfigError
from plankwise.evaluation.predict import predict
from plankwise.files import whole_file
from plankwise.models.loading import Loader
from plankwise.models.sentences import VECTORS, SentenceFiles, load_sentence_encoder, prepare, read_sentence_files
from plankwise.runtimes import open_predictor
from plankwise.task_kinds._encoding import encode_table
from plankwise.task_kinds._prediction_rows import check_columns, read_texts

PREDICTIONS = "vectors.npy"


def predict_table(
    config: RunConfig, loader: Loader, path: Path, texts: list[str], layout: Layout, out: Path, console: Console
) -> list[Path]:
    """Writes the vectors (N, D) of a table's texts, float32, in the order of its rows.

    Texts are cut where the model's own files, or else its tokenizer's, say, and stand behind task.prompt or the model's.

    Raises:
        PlankwiseError: the model or the table cannot be used.
    """
    check_columns(texts, 1, "a sentence encoder takes one text")
    if out.suffix != ".npy" or out.is_dir():
        raise ConfigError(f"--out is {out}; vectors are written to a .npy file: give the name of one")
    model, task = config.predecessor.path, config.task
    reference, prompt, pooling = (getattr(task, key, None) for key in ("reference", "prompt", "pooling"))
    files = read_sentence_files(model) or (read_sentence_files(reference) if reference else None) or SentenceFiles()
    predictor = open_predictor(
        config.evaluation.runtime, model, lambda path: load_sentence_encoder(loader, path, pooling=pooling)
    )
    table = read_texts(Piece(path, layout), texts, console)
    prepared = prepare(table[texts[0]].to_pylist(), files.prompt if prompt is None else prompt, lower=files.lower)
    tokenizer = loader.tokenizer(model)
    length = files.length(tokenizer, config.training.max_length)
    encoded = encode_table(path.stem, pa.table({"text": prepared}), tokenizer, length, console)
    vectors = predict(predictor, encoded, tokenizer, config.evaluation.batch_size, output=VECTORS)
    with whole_file(out) as part, part.open("wb") as file:
        np.save(file, vectors)
    return [out]


def predict_tests(config: RunConfig, loader: Loader, out: Path, console: Console) -> list[Path]:
    """Always an error: such a task has no test files.

    Raises:
        ConfigError: says what to do instead.
    """
    raise ConfigError(
        "a task on vectors has no test files; give a table and its column: --table new.csv --text sentence"
    )
