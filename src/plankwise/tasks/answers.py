"""Questions whose answers are spans of a text, from SQuAD's json files, or jsonl files with a question a line."""

from typing import Literal

from pydantic import Field

from plankwise import config

KIND = "answers"


class Options(config.Options):
    name: Literal["answers"] = Field("answers", description="the kind of task")
    train: str = Field(min_length=1, description="file of training questions: SQuAD's json, or jsonl")
    dev: str | None = Field(None, description="file of dev questions; a share of train's articles if absent")
    test: str | None = Field(None, description="file of questions to answer; its answers are not read")
    stride: int | None = Field(
        None, ge=0, description="tokens that a window shares with the one before; a quarter of max_length if absent"
    )
    longest_answer: int = Field(30, ge=1, description="tokens of an answer at most")
    train_limit: int | None = Field(
        None, ge=1, description="use at most this many training questions, drawn by the seed"
    )
    dev_limit: int | None = Field(None, ge=1, description="use at most this many dev questions, drawn by the seed")
    dev_share: float = Field(0.2, gt=0, lt=1, description="share of train's articles that becomes dev if there is none")
