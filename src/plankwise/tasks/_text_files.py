"""Options of tasks whose examples are texts without labels, in files of any kind."""

from typing import Literal

from pydantic import Field

from plankwise import config
from plankwise.data.layouts import Encoding, Quoting


class TextFiles(config.Options):
    """Where the texts are, how they are read, and which are held out."""

    name: str
    path: str = Field(min_length=1, description="file or folder of texts: txt, csv, tsv, jsonl, parquet")
    dev: str | None = Field(None, description="file or folder of held-out texts; a share of path if absent")
    unit: Literal["line", "file"] = Field("line", description="of a txt file, what is a document")
    column: str | None = Field(None, description="of csv, tsv, jsonl and parquet files, the column of the text")
    encoding: Encoding = Field("utf-8", description="how the files' characters are written, for example latin-1")
    quoting: Quoting = Field(
        True, description="of csv and tsv files, double quotes enclose fields; if false (or 'none') they are text"
    )
    train_limit: int | None = Field(None, ge=1, description="use at most this many documents for training")
    dev_share: float = Field(0.05, gt=0, lt=1, description="of the documents, held out when there is no task.dev")
    dev_limit: int | None = Field(1000, ge=1, description="use at most this many held-out documents")
