"""Record of a training workload's bottleneck."""

from __future__ import annotations

from typing import Literal, get_args

from accelbench.profiling.records.stored import Stored

Cause = Literal["device", "input", "dispatch", "transfer", "communication", "contention"]
CAUSES: tuple[Cause, ...] = get_args(Cause)
Bound = Literal[
    "device-bound",
    "input-bound",
    "dispatch-bound",
    "transfer-bound",
    "communication-bound",
    "cpu-contended",
    "cpu-quota-bound",
]


class CpuTime(Stored):
    """The time that the kernel gave to the process's threads, and kept from them, during the steady steps."""

    wall_s: float
    """The seconds that passed."""
    run_s: float
    """The seconds that the threads ran, summed over the threads."""
    wait_s: float
    """The seconds that threads were ready to run while no CPU was free, summed over the threads."""
    longest_wait_s: float
    """The same seconds of the one thread that waited the longest."""
    throttled_s: float | None = None
    """The seconds that the CPU quota stopped the process's control group, summed over the CPUs; null without a quota.

    Of groups that lie in each other it is the one that was stopped the longest.
    """

    @property
    def waited(self) -> float:
        """Return the share of the time that threads wanted a CPU in which they waited for one, the quota's left out."""
        wait_s = self.contended_s
        return wait_s / (wait_s + self.run_s) if wait_s > 0 else 0.0

    @property
    def contended_s(self) -> float:
        """Return the seconds that threads waited, less those in which the quota stopped them."""
        return max(0.0, self.wait_s - (self.throttled_s or 0.0))

    @property
    def contended(self) -> float:
        """Return the most of the time that passed, as a share, in which a step can have waited for a CPU.

        That is the time of the thread that waited the longest: several that waited at once cost a step no more.
        """
        return min(1.0, self.contended_s / self.wall_s, self.longest_wait_s / self.wall_s) if self.wall_s > 0 else 0.0

    @property
    def stopped(self) -> float | None:
        """Return the share of the time in which the CPU quota stopped the process; None without a quota.

        The kernel adds up the time over the CPUs, so that it may exceed the time that passed: it is taken as a share of
        the CPU time that the threads wanted, and for no more than the time that passed.
        """
        if self.throttled_s is None or self.wall_s <= 0:
            return None
        wanted_s = self.throttled_s + self.run_s
        return min(self.throttled_s / self.wall_s, self.throttled_s / wanted_s) if wanted_s > 0 else 0.0


class Bottleneck(Stored):
    """The verdict on what a training is bound by, and the evidence."""

    bound: Bound | None = None
    """The resource or limit that sets the speed of the training; null where it is unknown."""
    beside: list[Bound] = []
    """The bounds of causes that are not told from the largest: they take nearly as much time, the larger first."""
    reason: str | None = None
    """The reason why `bound` is unknown."""
    shares: dict[Cause, float] = {}
    """The share of the mean step that each cause takes, 0 to 1; the shares add up to 1."""
    intervals: dict[Cause, tuple[float, float]] = {}
    """The 95 % interval of each cause's share over the steps that were seen; empty where single steps were not."""
    cpu: CpuTime | None = None
    """The CPU time that the steady steps got and waited for; null where the kernel does not tell."""
    shares_text: str | None = None
    """The source of the shares, and the shares that it showed, in words."""
    kernels_text: str | None = None
    """The reason why the device's share counts as dispatch, where its kernels are tiny."""
    contention_text: str | None = None
    """The sentence on how long threads waited for a CPU, where that counts as contention."""
    quota_text: str | None = None
    """The sentence on how long the CPU quota stopped the process, where it did."""
    apart_text: str | None = None
    """The sentence that the steps that were looked at are not like those measured, where they are not."""
    help: str | None = None
    """The advice on what would make the training faster."""

    @property
    def evidence(self) -> list[str]:
        """Return the sentences that the verdict rests on."""
        texts = (self.shares_text, self.kernels_text, self.contention_text, self.quota_text, self.apart_text)
        return [text for text in texts if text]
