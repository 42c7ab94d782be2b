"""Queries with texts that answer them more or less: pairs with a score, or triples of a query, a better text and a worse one."""

from typing import Literal, Self

from pydantic import Field, model_validator

from plankwise import config
from plankwise.data.layouts import Encoding, Quoting, Separator
from plankwise.errors import ConfigError

KIND = "ranking"


class Options(config.Options):
    name: Literal["ranking"] = Field("ranking", description="the kind of task")
    train: str = Field(min_length=1, description="file of training pairs or triples: csv, tsv, jsonl or parquet")
    dev: str | None = Field(
        None, description="file of dev pairs, or a folder in BEIR's layout; a share of train's queries if absent"
    )
    test: str | None = Field(None, description="file of pairs to score; its scores are not read")
    query: str = Field("query", description="column of the queries")
    text: str = Field("text", description="column of the texts that are ranked, where rows are pairs")
    score: str = Field("score", description="column of the scores: the higher, the better a text answers its query")
    positive: str | None = Field(
        None, description="column of the better text; with task.negative, train's rows are triples"
    )
    negative: str | None = Field(None, description="column of the worse text")
    split: str = Field("test", description="of the folder in BEIR's layout, the name of the file in qrels")
    candidates: str | None = Field(
        None,
        description="of that folder's queries, file of the texts to rank: TREC's run format, or query and document",
    )
    negatives: int = Field(
        20, ge=1, description="without candidates, texts drawn by the seed for each query beside the judged ones"
    )
    separator: Separator = Field(None, description="between columns; a comma in .csv, a tab in .tsv if absent")
    header: bool = Field(True, description="the first line names the columns; if false they are '0', '1', …")
    encoding: Encoding = Field("utf-8", description="how the files' characters are written, for example latin-1")
    quoting: Quoting = Field(
        True, description="double quotes enclose fields; if false (or 'none') they are part of the text"
    )
    train_limit: int | None = Field(
        None, ge=1, description="use at most this many training pairs or triples, drawn by the seed"
    )
    dev_limit: int | None = Field(None, ge=1, description="use at most this many dev queries, drawn by the seed")
    dev_share: float = Field(0.2, gt=0, lt=1, description="share of train's queries that becomes dev if there is none")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.positive is None) != (self.negative is None):
            given, other = ("positive", "negative") if self.negative is None else ("negative", "positive")
            raise ConfigError(f"task.{given} is given, but task.{other} is not; triples have both, pairs neither")
        for columns in (["query", "text", "score"], ["query", "positive", "negative"]):
            names = [getattr(self, key) for key in columns]
            if len(set(names)) < len(names) and None not in names:
                keys = ", ".join(f"task.{key}" for key in columns)
                raise ConfigError(f"{keys} are {', '.join(map(repr, names))}; name three different columns")
        if self.candidates is not None and self.dev is None:
            raise ConfigError(
                "task.candidates is given, but task.dev is not; name the folder in BEIR's layout that they are for"
            )
        return self
