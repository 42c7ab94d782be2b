"""The section [plan] of a recipe: which blocks share a successor, of what kind, and where successors start."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from plankwise.errors import ConfigError
from plankwise.options import Options, as_list
from plankwise.start_options import FittingOptions, SolvingOptions

TAPERED, TAPERED_PART = "tapered", "thin"


class SlotOptions(Options):
    path: str = Field(description="a module's path, or a chain's path when span is given; * stands for any index")
    span: list[int] | None = Field(None, description="consecutive indices in the chain")
    part: str | None = Field(None, description="kind of successor; plan.part if absent")
    options: dict[str, Any] | None = Field(
        None, description="of its part; plan.options if absent and the part is plan.part"
    )


class PlanOptions(Options):
    successors: int | None = Field(None, ge=1, description="spans per chain; half the blocks if nothing is said")
    cut: Literal["even", "late", "each", "tapered"] = Field(
        "even",
        description="how blocks are cut into spans that are not listed: even; late: the first block alone, the longest last; "
        "each: a successor for each block, which its part makes smaller; tapered: the lowest sixth of the blocks alone, each "
        "above it thin, the higher the thinner",
    )
    spans: list[list[int]] | None = Field(
        None, description="listed spans, uneven if you like; a block in no span is left alone"
    )
    slots: list[SlotOptions] | None = Field(
        None, min_length=1, description="slots for anything else, each with path and, if need be, span and part"
    )
    chains: list[str] | None = Field(
        None, min_length=1, description="paths of the chains to compress; all that are found if absent"
    )
    part: str = Field("layers", description="kind of successor; see `plankwise list parts`")
    options: dict[str, Any] = Field({}, description="of the part; see `plankwise list parts`")
    init: str = Field(
        "auto",
        description="weights to start from: first, lower, upper, spread, mean, random, a checkpoint's folder, solved or fitted; "
        "auto: solved for replacing and kd where successors can be, else lower",
    )
    fitting: FittingOptions = Field(
        FittingOptions(), description="with init = 'fitted' or 'auto': each successor learns its span"
    )
    solving: SolvingOptions = Field(
        SolvingOptions(), description="with init = 'solved' or 'auto': each successor is solved by least squares"
    )
    vocabulary: Annotated[list[str], BeforeValidator(as_list)] = Field(
        [],
        description="texts that say which tokens successors keep: task (the training texts), text files with one text a line, or "
        "both; all tokens stay if absent",
    )
    vocabulary_min_count: int = Field(1, ge=1, description="occurrences in those texts from which on a token is kept")

    @model_validator(mode="before")
    @classmethod
    def _tapered_blocks_are_thin(cls, data: Any) -> Any:
        return {"part": TAPERED_PART, **data} if isinstance(data, dict) and data.get("cut") == TAPERED else data

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> Self:
        given = [name for name in ("successors", "spans", "slots") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ConfigError(
                f"{' and '.join(given)} are both given; they say the same thing in different ways: keep one"
            )
        if self.cut in ("each", TAPERED) and given:
            raise ConfigError(
                f"cut is {self.cut!r}, which gives each block a successor, but {given[0]} is given too; leave one of them out"
            )
        if self.cut == TAPERED and self.part != TAPERED_PART:
            raise ConfigError(
                f"cut is {TAPERED!r}, which is of thin blocks, but part is {self.part!r}; leave part out, or choose cut = 'each'"
            )
        if self.fitting.start in ("fitted", "auto"):
            raise ConfigError(
                f"fitting.start is {self.fitting.start!r}; give what fitting starts from, for example 'lower'"
            )
        return self

    def parts_used(self) -> list[tuple[str, dict[str, Any]]]:
        """Each part that the plan names, with its options."""
        if self.slots is None:
            return [(self.part, self.options)]
        return [self.part_of(slot) for slot in self.slots]

    def part_of(self, slot: SlotOptions) -> tuple[str, dict[str, Any]]:
        """A listed slot's part and its options."""
        part = slot.part or self.part
        usual = self.options if part == self.part else {}
        return part, usual if slot.options is None else slot.options

    @property
    def start(self) -> str:
        """Whose weights the successors have before any are computed."""
        given = self.fitting.start if self.init in ("fitted", "auto") else self.init
        return "lower" if given == "solved" else given

    @property
    def solves(self) -> bool:
        """Whether the successors are to be solved, whatever the method."""
        return self.init == "solved" or (self.init == "fitted" and self.fitting.start == "solved")
