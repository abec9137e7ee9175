"""The base of everything that is written to disk."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Stored(BaseModel):
    """Unchangeable, and strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")
