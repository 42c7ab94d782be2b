"""What `plankwise predict` writes of a tagger: tags of a table's texts as a csv, or of the task's test file as CoNLL has them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from transformers import AutoModelForTokenClassification

from plankwise.config import RunConfig
from plankwise.data.cells import read_cells, read_columns
from plankwise.data.pieces import Layout, Piece
from plankwise.data.quotes import Tally
from plankwise.data.tables import read_table
from plankwise.data.tagged import read_tagged
from plankwise.errors import ConfigError, DataError
from plankwise.evaluation.entities import NOTHING
from plankwise.files import write_text
from plankwise.models.limits import check_length
from plankwise.models.loading import Loader
from plankwise.runtimes import open_predictor
from plankwise.task_kinds._encoding import tell_encoded
from plankwise.task_kinds._prediction_rows import write_rows
from plankwise.task_kinds._words import encode_words, tag_words


class Tagger:
    """A trained model with its tokenizer and the names of its tags."""

    def __init__(self, config: RunConfig, loader: Loader, console: Console) -> None:
        path = config.predecessor.path
        saved = loader.config(path)
        if not any("ForTokenClassification" in name for name in saved.architectures or ()):
            raise ConfigError(
                f"{path} has no trained head for tags of words; give the successor/ or predecessor/ folder of a run on them"
            )
        self.tags = [str(saved.id2label[index]) for index in range(len(saved.id2label))]
        self.tokenizer = loader.tokenizer(path)
        self.max_length, self.batch_size = config.training.max_length, config.evaluation.batch_size
        self.console = console
        check_length(self.max_length, loader.outline(path, AutoModelForTokenClassification), self.tokenizer, path)
        self.predictor = open_predictor(config.evaluation.runtime, path, loader.trained)

    def tag(self, name: str, texts: Sequence[Sequence[str]]) -> list[list[str]]:
        """The tag of each word of each text; of words that were cut off, O, or else the first."""
        pieces = encode_words(texts, [[0] * len(words) for words in texts], self.tokenizer, self.max_length)
        tell_encoded(name, pieces.encoded, self.max_length, self.console)
        otherwise = self.tags.index(NOTHING) if NOTHING in self.tags else 0
        found = tag_words(self.predictor, pieces, self.tokenizer, self.batch_size, otherwise=otherwise)
        return [[self.tags[tag] for tag in row[: len(words)]] for row, words in zip(found, texts, strict=True)]


def predict_table(
    config: RunConfig, loader: Loader, path: Path, texts: list[str], layout: Layout, out: Path, console: Console
) -> list[Path]:
    """Writes a CSV with all columns of the table, then the tags of the text's words, which blanks divide, with blanks between.

    Raises:
        PlankwiseError: the model or the table cannot be used.
    """
    if len(texts) != 1:
        raise ConfigError(f"--text is given {len(texts)} times; a tagger takes one text")
    if out.is_dir():
        raise ConfigError(f"--out is {out}, which is a folder; give the name of a csv file")
    tagger, tally = Tagger(config, loader, console), Tally()
    table = read_table(path, texts, layout, key="--table", tell=tally.add)
    for note in tally.notes:
        console.print(note, soft_wrap=True)
    tags = tagger.tag(path.stem, [text.split() for text in table[texts[0]].to_pylist()])
    piece = Piece(path, layout)
    columns = read_columns(piece)
    cells = ([" ".join(row)] for row in tags)
    write_rows(out, columns, read_cells(piece, columns), ["tags"], cells, len(tags), console)
    return [out]


def predict_tests(config: RunConfig, loader: Loader, out: Path, console: Console) -> list[Path]:
    """Tags the task's test file into the folder `out`: a word, a tab and its tag a line, an empty line between texts.

    Raises:
        PlankwiseError: the task has no test file, or the model does not fit.
    """
    options: Any = config.task
    if out.is_file():
        raise ConfigError(f"--out is {out}, which is a file; test files are written into a folder")
    if options.test is None:
        raise DataError("task.test is not given; name the file of texts to tag, or give --table and --text")
    texts = read_tagged(options.test, options.words, None, None, key="task.test", encoding=options.encoding)
    tagger = Tagger(config, loader, console)
    tags = tagger.tag("test", [text.words for text in texts])
    blocks = [
        "".join(f"{word}\t{tag}\n" for word, tag in zip(text.words, row, strict=True))
        for text, row in zip(texts, tags, strict=True)
    ]
    path = out / f"{Path(options.test).stem}.conll"
    write_text(path, "\n".join(blocks))
    return [path]
