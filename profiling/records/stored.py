"""The base of everything that is written to disk."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Stored(BaseModel):
    """A stored model never changes and has no unknown fields; NaN and Infinity are written to JSON as words."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")
