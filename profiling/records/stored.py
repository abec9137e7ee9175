"""The base of everything that is written to disk."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Stored(BaseModel):
    """Unchangeable, and strict about unknown fields; what JSON has no number for is the word NaN or Infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")
