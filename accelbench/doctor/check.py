"""Result of a check of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CheckStatus = Literal["ok", "warn", "missing"]


@dataclass(frozen=True)
class Check:
    """Checked item: status and finding; for a problem, advice and effect on measurements."""

    name: str
    status: CheckStatus
    found: str
    advice: str = ""
    cost: str = ""
