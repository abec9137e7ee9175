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
    """The verdict on what a training is bound by, and the evidence."""

    bound: Bound | None = None
    """The resource or limit that sets the speed of the training; null where it is unknown."""
    reason: str | None = None
    """The reason why `bound` is unknown."""
    shares: dict[Cause, float] = {}
    """The share of the mean step that each cause takes, 0 to 1; the shares add up to 1."""
    shares_text: str | None = None
    """The source of the shares, and the shares that it showed, in words."""
    kernels_text: str | None = None
    """The reason why the device's share counts as dispatch, where its kernels are tiny."""
    quota_text: str | None = None
    """The sentence on how often the CPU quota stopped the process, where that decides the verdict."""
    help: str | None = None
    """The advice on what would make the training faster."""

    @property
    def evidence(self) -> list[str]:
        """Return the sentences that the verdict rests on."""
        return [text for text in (self.shares_text, self.kernels_text, self.quota_text) if text]
