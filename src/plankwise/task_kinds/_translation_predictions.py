"""What `plankwise predict` writes of a translator: a table with translations, or the task's test file, a translation a line."""

from pathlib import Path
from typing import Any

from rich.console import Console

from plankwise.config import RunConfig
from plankwise.data.parallel import read_lines, read_pairs
from plankwise.data.pieces import Layout, Piece
from plankwise.files import write_text
from plankwise.models.limits import check_length
from plankwise.models.loading import Loader
from plankwise.runtimes import open_predictor
from plankwise.task_kinds._encoding import tell_encoded
from plankwise.task_kinds._prediction_rows import check_columns, check_file, find_test, read_texts, write_beside
from plankwise.task_kinds._writing import encode_pairs, find_ends, write_texts

TABLES = (".csv", ".tsv", ".jsonl", ".parquet")


def _translate(config: RunConfig, loader: Loader, name: str, texts: list[str], console: Console) -> list[str]:
    path, options, length = config.predecessor.path, config.task, config.training.max_length
    ends, tokenizer = find_ends(loader.config(path), path), loader.tokenizer(path)
    predictor = open_predictor(config.evaluation.runtime, path, loader.trained)
    check_length(length, predictor.module, tokenizer, path)
    encoded = encode_pairs(texts, texts, tokenizer, length, ends)
    tell_encoded(name, encoded, length, console)
    beams = getattr(options, "beams", 1)
    return write_texts(predictor, encoded, tokenizer, config.evaluation.batch_size, max_length=length, beams=beams)


def predict_table(
    config: RunConfig, loader: Loader, path: Path, texts: list[str], layout: Layout, out: Path, console: Console
) -> list[Path]:
    """Writes a CSV with all columns of the table, then the translation of the text.

    Raises:
        PlankwiseError: the model or the table cannot be used.
    """
    check_columns(texts, 1, "a translator takes one text")
    check_file(out)
    piece = Piece(path, layout)
    table = read_texts(piece, texts, console)
    found = _translate(config, loader, path.stem, table[texts[0]].to_pylist(), console)
    write_beside(out, piece, ["translation"], ([text] for text in found), len(found), console)
    return [out]


def predict_tests(config: RunConfig, loader: Loader, out: Path, console: Console) -> list[Path]:
    """Translates the task's test file into a text file in the folder `out`, a translation a line.

    Raises:
        PlankwiseError: the task has no test file, or the model does not fit.
    """
    options: Any = config.task
    test = find_test(options, out, "texts to translate, or give --table and --text")
    first = test if isinstance(test, str) else test[0]
    if Path(first).suffix.lower() in TABLES:
        pairs, _ = read_pairs(first, options.source, options.target, key="task.test", encoding=options.encoding)
        texts = [pair.source for pair in pairs]
    else:
        texts = read_lines(first, "task.test", options.encoding)
    found = _translate(config, loader, "test", texts, console)
    path = out / f"{Path(first).name.split('.')[0]}.txt"
    write_text(path, "".join(" ".join(text.split()) + "\n" for text in found))
    return [path]
