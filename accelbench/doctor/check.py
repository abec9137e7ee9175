"""What a check of the machine found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CheckStatus = Literal["ok", "warn", "missing"]


@dataclass(frozen=True)
class Check:
    """One thing looked at: how it is, what to do about it, and what it costs to leave it (empty where it is well)."""

    name: str
    status: CheckStatus
    found: str
    advice: str = ""
    cost: str = ""
