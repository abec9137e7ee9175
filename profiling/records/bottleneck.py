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
    shares_text: str | None = None
    """The source of the shares, and the shares that it showed, in words."""
    kernels_text: str | None = None
    """The reason why the device's share counts as dispatch, where its kernels are tiny."""
    quota_text: str | None = None
    """How often the CPU quota stopped the process, where that decides the verdict."""
    help: str | None = None
    """What would make it faster."""

    @property
    def evidence(self) -> list[str]:
        """All that the verdict rests on, in sentences."""
        return [text for text in (self.shares_text, self.kernels_text, self.quota_text) if text]
