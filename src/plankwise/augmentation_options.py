"""The section [method.augmentation] of a recipe: copies of the training texts in which words are replaced."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from plankwise.options import Options, as_list


class AugmentationOptions(Options):
    copies: int = Field(0, ge=0, le=1000, description="changed copies of each training text, its label theirs; 0: none")
    candidates: int = Field(15, ge=1, le=1000, description="words that a word may be replaced by")
    probability: float = Field(0.4, ge=0, le=1, description="that a word of a copy is replaced")
    model: str | None = Field(
        None,
        description="folder of a masked language model, which says what else may stand in a word's place; none: the "
        "predecessor's, if it has such a head",
    )
    vectors: str | None = Field(
        None,
        description="text file of word vectors (a word and its numbers on each line, as GloVe's) for words of several tokens; "
        "none: words of the training texts by the mean of their tokens' embeddings",
    )
    keep: Annotated[list[str], BeforeValidator(as_list)] = Field(
        [], description="words that are never replaced, beside English function words"
    )
