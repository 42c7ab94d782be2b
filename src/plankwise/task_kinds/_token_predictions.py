"""What `plankwise predict` writes of a tagger: tags of a table's texts as a csv, or of the task's test file as CoNLL has them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from transformers import AutoModelForTokenClassification

from plankwise.config import RunConfig
from plankwise.data.pieces import Layout, Piece
from plankwise.data.tagged import read_tagged
from plankwise.errors import ConfigError
from plankwise.evaluation.entities import NOTHING
from plankwise.files import write_text
from plankwise.models.limits import check_length
from plankwise.models.loading import Loader
from plankwise.runtimes import open_predictor
from plankwise.task_kinds._encoding import tell_encoded
from plankwise.task_kinds._prediction_rows import check_columns, check_file, find_test, read_texts, write_beside
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
    check_columns(texts, 1, "a tagger takes one text")
    check_file(out)
    tagger, piece = Tagger(config, loader, console), Piece(path, layout)
    table = read_texts(piece, texts, console)
    tags = tagger.tag(path.stem, [text.split() for text in table[texts[0]].to_pylist()])
    write_beside(out, piece, ["tags"], ([" ".join(row)] for row in tags), len(tags), console)
    return [out]


def predict_tests(config: RunConfig, loader: Loader, out: Path, console: Console) -> list[Path]:
    """Tags the task's test file into the folder `out`: a word, a tab and its tag a line, an empty line between texts.

    Raises:
        PlankwiseError: the task has no test file, or the model does not fit.
    """
    options: Any = config.task
    test = find_test(options, out, "texts to tag, or give --table and --text")
    texts = read_tagged(test, options.words, None, None, key="task.test", encoding=options.encoding)
    tagger = Tagger(config, loader, console)
    tags = tagger.tag("test", [text.words for text in texts])
    blocks = [
        "".join(f"{word}\t{tag}\n" for word, tag in zip(text.words, row, strict=True))
        for text, row in zip(texts, tags, strict=True)
    ]
    path = out / f"{Path(test).stem}.conll"
    write_text(path, "\n".join(blocks))
    return [path]
