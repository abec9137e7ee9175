"""Base class of stored types, and the ranges of their numbers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

FIRST_YEAR, LAST_YEAR = 2000, 2999


def _of_this_age(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a moment without its time zone")
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(f"nothing was measured in the year {moment.year}")
    return moment


Moment = Annotated[datetime, AfterValidator(_of_this_age)]
"""A moment with its time zone, of an age in which something may have been measured."""
Seconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
"""A stretch of time in seconds."""
DURATION = Field(ge=1e-15, le=1e12, allow_inf_nan=False)
Duration = Annotated[float, DURATION]
"""The seconds that something took, which is more than none."""
Several = Annotated[int, Field(ge=1, le=10**15)]
"""A number of things, of which there is one at least."""
Share = Annotated[float, Field(ge=0, le=1)]
"""A share of a whole, 0 to 1."""
Count = Annotated[int, Field(ge=0, le=10**15)]
"""A number of things; as a float it is exact, too."""
POSITIVE = Field(gt=0, le=1e300, allow_inf_nan=False)
Positive = Annotated[float, POSITIVE]
"""A number above zero, by which another can be divided."""
Finite = Annotated[float, Field(ge=-1e300, le=1e300, allow_inf_nan=False)]
"""A number that can be reckoned with."""


class Stored(BaseModel):
    """A stored model never changes and has no unknown fields; NaN and Infinity are written to JSON as words."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


def first_fault(error: ValidationError) -> str:
    """Return, in words, where and why data is no such model: the first of what is wrong with it."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{readable(where)}: {first['msg']}" if where else str(first["msg"])


def readable(text: str) -> str:
    """Return the text with escapes for what is no Unicode: halves of characters, as names of files may have."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
