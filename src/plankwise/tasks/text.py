"""Unlabelled text, for a language model: a file or folder of any size, read piece by piece.

Plain text (a document a line, or a file), or a column of csv, tsv, jsonl or parquet files.
"""

from typing import Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from plankwise.errors import ConfigError, DataError
from plankwise.tasks._text_files import TextFiles

KIND = "text"


class Options(TextFiles):
    name: Literal["text"] = Field("text", description="the kind of task")
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
    head_share: float = Field(
        0.2, gt=0, le=1, description="of the predecessor's steps, spent on a new head alone if it has none"
    )
    head_learning_rate: float = Field(1e-3, gt=0, description="peak learning rate of a new head trained alone")

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
