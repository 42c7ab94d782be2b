"""Options that are a share of what there is up to 1, and a number above."""

import math
from typing import Annotated

from pydantic import AfterValidator, Field

from plankwise.errors import ConfigError


def _whole_above_one(value: float) -> float:
    if value > 1 and value != int(value):
        raise ConfigError(f"{value:g} is neither a share nor a number; give a share up to 1 or a whole number")
    return value


Amount = Annotated[float, Field(gt=0), AfterValidator(_whole_above_one)]


def number_kept(share: float, count: int) -> int:
    """How many of so many an option keeps: up to 1 it is their share, above 1 their number."""
    return max(1, math.floor(share * count + 0.5)) if share <= 1 else int(share)
