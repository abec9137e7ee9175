"""The verdict on what holds a training back."""

from __future__ import annotations

from typing import Literal, get_args

from profiling.records.stored import Stored

Cause = Literal["device", "input", "dispatch", "transfer", "communication"]
CAUSES: tuple[Cause, ...] = get_args(Cause)
Bound = Literal[
    "device-bound", "input-bound", "dispatch-bound", "transfer-bound", "communication-bound", "cpu-quota-bound"
]


class Bottleneck(Stored):
    """What a training is bound by, and the evidence."""

    bound: Bound | None = None
    reason: str | None = None
    """Why it is unknown."""
    shares: dict[Cause, float] = {}
    """Of the mean step; they add up to 1."""
    evidence: list[str] = []
    """What the shares rest on, in sentences."""
    help: str | None = None
    """What would make it faster."""
