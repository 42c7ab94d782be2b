"""Texts with their translations (or any texts with texts to write for them): two files line by line, or a table of two columns."""

from typing import Literal, Self

from pydantic import Field, model_validator

from plankwise import config
from plankwise.data.layouts import Encoding
from plankwise.errors import ConfigError

KIND = "translation"
FILES = "two text files, a text a line, .gz or not, or a table"


class Options(config.Options):
    name: Literal["translation"] = Field("translation", description="the kind of task")
    train: str | list[str] = Field(min_length=1, description=f"training texts and translations: {FILES}")
    dev: str | list[str] | None = Field(None, description="the same for dev; a share of train if absent")
    test: str | list[str] | None = Field(None, description="texts to translate: a text file, or as train")
    source: str = Field("source", description="of a table, the column with the text")
    target: str = Field("target", description="of a table, the column with its translation")
    beams: int = Field(1, ge=1, description="of the search for a translation; 1 takes the likeliest token each time")
    encoding: Encoding = Field("utf-8", description="how the files' characters are written, for example latin-1")
    train_limit: int | None = Field(None, ge=1, description="use at most this many training texts, drawn by the seed")
    dev_limit: int | None = Field(None, ge=1, description="use at most this many dev texts, drawn by the seed")
    dev_share: float = Field(0.05, gt=0, lt=1, description="share of train that becomes dev when there is no dev set")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for key in ("train", "dev", "test"):
            given = getattr(self, key)
            if isinstance(given, list) and len(given) != 2:
                raise ConfigError(f"task.{key} lists {len(given)} files; give two, the texts and their translations")
        if self.source == self.target:
            raise ConfigError(
                f"task.target is {self.target!r}, which is task.source too; name the column of the translations"
            )
        return self
