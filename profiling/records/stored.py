"""Base class of stored types, and numeric types with ranges."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

FIRST_YEAR, LAST_YEAR = 2000, 2999


def _plausible(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("the time has no time zone")
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(f"the year {moment.year} is not in {FIRST_YEAR}–{LAST_YEAR}")
    return moment


Moment = Annotated[datetime, AfterValidator(_plausible)]
"""A date and time with time zone, from `FIRST_YEAR` to `LAST_YEAR`."""
Seconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
"""A time in seconds, which may be 0."""
DURATION = Field(ge=1e-15, le=1e12, allow_inf_nan=False)
Duration = Annotated[float, DURATION]
"""A positive time in seconds."""
Several = Annotated[int, Field(ge=1, le=10**15)]
"""A count of at least 1."""
Share = Annotated[float, Field(ge=0, le=1)]
"""A share, 0 to 1."""
Count = Annotated[int, Field(ge=0, le=10**15)]
"""A count that is exact as a float, too."""
POSITIVE = Field(gt=0, le=1e300, allow_inf_nan=False)
Positive = Annotated[float, POSITIVE]
"""A finite number above 0."""
Finite = Annotated[float, Field(ge=-1e300, le=1e300, allow_inf_nan=False)]
"""A finite number."""


class Stored(BaseModel):
    """Base class of stored models: frozen, without unknown fields; NaN and Infinity are strings in JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


def first_fault(error: ValidationError, skip: int = 0) -> str:
    """Return the first validation error as text, "field: reason"; `skip` parts of the field's path are left out."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    where = readable(".".join(map(str, first["loc"][skip:])))
    reason = str(first["msg"]).removeprefix("Value error, ")
    if not where:
        return reason
    return {"missing": f"{where} is missing", "extra_forbidden": f"unknown key {where}"}.get(
        first["type"], f"{where}: {reason}"
    )


def readable(text: str) -> str:
    """Return the text with lone surrogates, which file names may contain, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


Readable = Annotated[str, AfterValidator(readable)]
"""A text of a user's, who may type what is no Unicode."""
