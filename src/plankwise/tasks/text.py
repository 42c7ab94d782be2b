"""Unlabelled text, for a language model: a file or folder of any size, read piece by piece.

Plain text (a document a line, or a file), or a column of csv, tsv, jsonl or parquet files.
"""

from typing import Any, Literal, Self

import pyarrow as pa
from pydantic import Field, field_validator, model_validator

from plankwise import config
from plankwise.errors import ConfigError, DataError
from plankwise.tasks.table import read_encoding, read_quoting

KIND = "text"


class Options(config.Options):
    name: Literal["text"] = Field("text", description="the kind of task")
    path: str = Field(min_length=1, description="file or folder of texts: txt, csv, tsv, jsonl, parquet")
    dev: str | None = Field(None, description="file or folder of held-out texts; a share of path if absent")
    unit: Literal["line", "file"] = Field("line", description="of a txt file, what is a document")
    column: str | None = Field(None, description="of csv, tsv, jsonl and parquet files, the column of the text")
    encoding: str = Field("utf-8", description="how the files' characters are written, for example latin-1")
    quoting: bool = Field(
        True, description="of csv and tsv files, double quotes enclose fields; if false (or 'none') they are text"
    )
    objective: Literal["mlm", "mlm+nsp", "mlm+sop", "clm"] = Field(
        "mlm",
        description="masked tokens; with next-sentence or sentence-order prediction; or, for decoders, the next token",
    )
    pack: bool = Field(
        True,
        description="join documents into sequences of max_length; if false, one sequence per document; pairs are never packed",
    )
    mask_share: float = Field(0.15, gt=0, lt=1, description="of the tokens, to be predicted")
    mask_seed: int = Field(0, ge=0, description="seeds the masks alone")
    whole_words: bool = Field(False, description="mask all tokens of a word together")
    train_limit: int | None = Field(None, ge=1, description="use at most this many documents for training")
    dev_share: float = Field(0.05, gt=0, lt=1, description="of the documents, held out when there is no task.dev")
    dev_limit: int | None = Field(1000, ge=1, description="use at most this many held-out documents")
    head_share: float = Field(
        0.2, gt=0, le=1, description="of the predecessor's steps, spent on a new head alone if it has none"
    )
    head_learning_rate: float = Field(1e-3, gt=0, description="peak learning rate of a new head trained alone")

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str) -> str:
        return read_encoding(value, "task.encoding")

    @field_validator("quoting", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        return read_quoting(value)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.objective == "clm" and self.whole_words:
            raise ConfigError("task.whole_words is true, but task.objective is 'clm', which masks nothing; take it out")
        return self


def read_tests(options: Options) -> dict[str, pa.Table]:
    """Always an error: a language model has no classes to predict.

    Raises:
        DataError: says what to do instead.
    """
    raise DataError(
        "task.name is 'text', which has nothing to predict; train a task on the model with `plankwise finetune`, "
        "then predict with that"
    )
