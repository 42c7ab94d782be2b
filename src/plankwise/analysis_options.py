"""The section [analysis] of a recipe, which `plankwise analyse` reads: rules that sort errors into classes."""

import re
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from plankwise.errors import ConfigError, shorten
from plankwise.options import MOST_GIVEN, Options

RuleKind = Literal["regex", "length", "capitals", "emoji", "mentions", "rare_words"]
USUAL_ABOVE = {"regex": 0, "capitals": 0.5, "emoji": 0, "mentions": 0, "rare_words": 0.2}
MEASURED: dict[RuleKind, str] = {
    "regex": "how often a regular expression matches; needs pattern",
    "length": "how many words there are; needs above or below",
    "capitals": "which share of the letters is capital",
    "emoji": "how many emoji there are",
    "mentions": "how many mentions and hashtags there are",
    "rare_words": "which share of the words is in train at most `seen` times",
}
USUAL_SEEN = 1
SHARES = ("capitals", "rare_words")  # kinds whose measure is a share of the letters or words; others count


def usual_options(kind: RuleKind) -> dict[str, float]:
    """The options that a rule of this kind has if it does not say."""
    above = {"above": USUAL_ABOVE[kind]} if kind in USUAL_ABOVE else {}
    return {**above, **({"seen": USUAL_SEEN} if kind == "rare_words" else {})}


class RuleOptions(Options):
    """An error class: the texts in which something is measured above, or below, a bound."""

    kind: RuleKind = Field(description="what is measured: matches, words, or the share of capitals or of rare words")
    name: str = Field(min_length=1, description="what the error class is called; by its kind if absent")
    pattern: str | None = Field(None, description="for regex: the regular expression whose matches are counted")
    above: float | None = Field(None, ge=0, description="texts that measure more than this belong to the class")
    below: float | None = Field(None, gt=0, description="texts that measure less than this belong to the class")
    seen: int | None = Field(None, ge=0, description="for rare_words: a rare word is in train at most so many times")

    def __repr__(self) -> str:
        return self.name

    @model_validator(mode="before")
    @classmethod
    def _fill_in_what_the_kind_says(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(kind := data.get("kind"), str):
            return data
        filled = {"name": kind.replace("_", " "), **data}
        if data.get("above") is None and data.get("below") is None and kind in USUAL_ABOVE:
            filled["above"] = USUAL_ABOVE[kind]
        if data.get("seen") is None and kind == "rare_words":
            filled["seen"] = USUAL_SEEN
        return filled

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except (re.error, RecursionError, OverflowError) as error:
            raise ConfigError(
                f"{shorten(repr(value), MOST_GIVEN)} is not a regular expression ({error}); fix it, and write it in single "
                "quotes, where TOML leaves backslashes alone"
            ) from None
        return value

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.kind == "regex" and not self.pattern:
            raise ConfigError(r"kind is 'regex', which needs a pattern; give one, for example pattern = '\bnot\b'")
        for key, value, owner in (("pattern", self.pattern, "regex"), ("seen", self.seen, "rare_words")):
            if value is not None and self.kind != owner:
                raise ConfigError(f"{key} is {value!r}, but kind is {self.kind!r}; only kind = {owner!r} takes it")
        if self.above is None and self.below is None:
            raise ConfigError(f"kind is {self.kind!r}, which needs a bound; give above or below, in words")
        if self.above is not None and self.below is not None and self.above >= self.below:
            raise ConfigError(f"above is {self.above} and below {self.below}; no text can be in between")
        if self.kind in SHARES and (self.above or 0) >= 1:
            raise ConfigError(f"above is {self.above}, but {self.kind} are measured as a share; give less than 1")
        return self


USUAL_RULES = [
    RuleOptions.model_validate(rule)
    for rule in (
        {"name": "long", "kind": "length", "above": 40},
        {"kind": "capitals"},
        {"kind": "emoji"},
        {"name": "mentions or hashtags", "kind": "mentions", "above": 4},
        {"name": "quotations", "kind": "regex", "pattern": '["“”„«»][^"“”„«»]+["“”„«»]'},
        {"name": "questions", "kind": "regex", "pattern": r"\?"},
        {"kind": "rare_words"},
    )
]


class AnalysisOptions(Options):
    rules: list[RuleOptions] = Field(
        USUAL_RULES, description="error classes: {kind = 'regex', name = 'negation', pattern = '\\bnot\\b'}, …"
    )
    margin: float = Field(
        0.03, gt=0, lt=1, description="a class's share of the errors is stable if it changes by no more"
    )
    texts: bool = Field(True, description="keep texts on which the models differ in the record; false if confidential")

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [rule.name for rule in self.rules]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"several rules are called {twice[0]!r}; give each a name of its own")
        return self
