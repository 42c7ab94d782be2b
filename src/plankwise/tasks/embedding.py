"""Texts without labels, for a smaller sentence encoder that gives them the predecessor's own vectors.

Plain text (a text a line, or a file), or a column of csv, tsv, jsonl or parquet files; beside them, files that measure vectors.
"""

from typing import Literal

from pydantic import Field

from plankwise.tasks._text_files import TextFiles

KIND = "embedding"


class Options(TextFiles):
    name: Literal["embedding"] = Field("embedding", description="the kind of task")
    pooling: Literal["mean", "cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"] | None = Field(
        None,
        description="how a plain encoder's states become a vector, mean if absent; sentence-transformers models say it themselves",
    )
    loss: Literal["cosine", "squared"] = Field(
        "cosine", description="distance from the predecessor's vector: 1 - cosine, or squared"
    )
    prompt: str | None = Field(
        None, description="stands before every text of path and dev; the predecessor's default prompt if absent"
    )
    reference: str | None = Field(
        None, description="model whose vectors are agreed with; the predecessor, of a run's models its own, if absent"
    )
    sts: str | None = Field(
        None, description="tsv file, or folder of them, to measure by: score, sentence, sentence, no header"
    )
    retrieval: str | None = Field(
        None, description="folder in BEIR's layout to measure by: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv"
    )
    retrieval_split: str = Field("test", description="of the folder in BEIR's layout, the name of the file in qrels")
