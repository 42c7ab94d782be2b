"""Tagged words (named entities, parts of speech), from CoNLL files, or jsonl and parquet files with lists."""

from typing import Literal, Self

from pydantic import Field, model_validator

from plankwise import config
from plankwise.data.layouts import Encoding
from plankwise.errors import ConfigError

KIND = "tokens"


class Options(config.Options):
    name: Literal["tokens"] = Field("tokens", description="the kind of task")
    train: str = Field(min_length=1, description="file of training texts: CoNLL, jsonl or parquet")
    dev: str | None = Field(None, description="file of dev texts; a share of train if absent")
    test: str | None = Field(None, description="file of texts to tag; its tags are not read")
    words: str = Field("words", description="of jsonl and parquet files, the column with the list of words")
    tags: str = Field("tags", description="of jsonl and parquet files, the column with the list of tags")
    labels: list[str] | None = Field(
        None, min_length=2, description="tags in the order of the model's classes; those found, O first, if absent"
    )
    metric: Literal["f1", "accuracy"] | None = Field(
        None, description="the score; entities' f1 if all tags are O, B-…, I-…, E-… or S-…, else accuracy, if absent"
    )
    encoding: Encoding = Field("utf-8", description="how a CoNLL file's characters are written, for example latin-1")
    train_limit: int | None = Field(None, ge=1, description="use at most this many training texts, drawn by the seed")
    dev_limit: int | None = Field(None, ge=1, description="use at most this many dev texts, drawn by the seed")
    dev_share: float = Field(0.2, gt=0, lt=1, description="share of train that becomes dev when there is no dev set")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.labels is not None and len(set(self.labels)) < len(self.labels):
            raise ConfigError(f"task.labels is {self.labels!r}; each tag may be listed only once")
        if self.words == self.tags:
            raise ConfigError(f"task.tags is {self.tags!r}, which is task.words too; name the column of the tags")
        return self
