"""Record of a training workload's bottleneck."""

from __future__ import annotations

from typing import Literal, get_args

from accelbench.profiling.records.stored import Duration, Positive, Several, Stored

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
    """CPU time of the process's threads during the steady steps: running, waiting, throttled."""

    wall_s: float
    """The wall time in seconds."""
    run_s: float
    """The running time in seconds, summed over the threads."""
    wait_s: float
    """The run-queue wait (runnable, but no CPU free) in seconds, summed over the threads."""
    longest_wait_s: float
    """The run-queue wait of the thread that waited the longest, in seconds."""
    throttled_s: float | None = None
    """The seconds that the CPU quota throttled the control group, summed over the CPUs; null without a quota.

    With nested control groups, the value of the group that was throttled the longest.
    """

    @property
    def waited(self) -> float:
        """Return wait ÷ (wait + run) of the threads, without the wait caused by the quota."""
        wait_s = self.contended_s
        return wait_s / (wait_s + self.run_s) if wait_s > 0 else 0.0

    @property
    def contended_s(self) -> float:
        """Return the run-queue wait in seconds, less the throttled time."""
        return max(0.0, self.wait_s - (self.throttled_s or 0.0))

    @property
    def contended(self) -> float:
        """Return an upper bound of the share of the wall time that steps waited for a CPU.

        It is the wait of the thread that waited the longest: threads that wait at the same time delay a step once.
        """
        return min(1.0, self.contended_s / self.wall_s, self.longest_wait_s / self.wall_s) if self.wall_s > 0 else 0.0

    @property
    def stopped(self) -> float | None:
        """Return the share of the time in which the CPU quota throttled the process; None without a quota.

        The kernel sums the throttled time over the CPUs, so it may exceed the wall time. The share is therefore the
        smaller of throttled ÷ wall time and throttled ÷ (throttled + run) time.
        """
        if self.throttled_s is None or self.wall_s <= 0:
            return None
        wanted_s = self.throttled_s + self.run_s
        return min(self.throttled_s / self.wall_s, self.throttled_s / wanted_s) if wanted_s > 0 else 0.0


class StepsWithout(Stored):
    """Steps of an experiment without one of their causes, compared with other steps."""

    steps: Several
    """The number of steps."""
    mean: Duration
    """The mean seconds per step; of several repetitions of the experiment, the median of their means."""
    ci_low: Positive
    """The lower end of the confidence interval of `mean`."""
    ci_high: Positive
    """The upper end of the same interval."""
    mean_with: Positive | None = None
    """The mean seconds of the steps to compare: of a script, those directly after the experiment."""
    speedup: Positive
    """The step to compare ÷ the step of the experiment: the largest speedup by an improvement of that cause."""
    speedup_low: Positive
    """The lower end of the confidence interval of `speedup`."""
    speedup_high: Positive
    """The upper end of the same interval."""
    same_random_numbers: bool = True
    """Whether a script drew the same random numbers as without the experiment."""


class Bottleneck(Stored):
    """The bottleneck of a training run, and the evidence for it."""

    bound: Bound | None = None
    """The resource or limit that determines the training speed; null if unknown."""
    beside: list[Bound] = []
    """Further bounds, the larger first: their shares are not significantly smaller than the largest."""
    reason: str | None = None
    """The reason why `bound` is unknown."""
    shares: dict[Cause, float] = {}
    """The share of the mean step that each cause takes, 0 to 1; the shares add up to 1."""
    intervals: dict[Cause, tuple[float, float]] = {}
    """The 95 % interval of each cause's share over the observed steps; empty without times of single steps."""
    cpu: CpuTime | None = None
    """The CPU time of the steady steps; null where the kernel does not provide it."""
    shares_text: str | None = None
    """The shares and their source, as text."""
    kernels_text: str | None = None
    """The reason why the device's share counts as dispatch, if its kernels are tiny."""
    contention_text: str | None = None
    """The run-queue wait as text, if it counts as contention."""
    quota_text: str | None = None
    """The throttling by the CPU quota as text, if there was any."""
    apart_text: str | None = None
    """A warning that the profiled steps differ from the measured ones, if they do."""
    prefetched: StepsWithout | None = None
    """The experiment on the input: batches were in memory, so that no step waited for them; null if there was none."""
    unexchanged: StepsWithout | None = None
    """The experiment on the exchange of gradients, which took place in a pause after each step's gradients; of the
    slowest rank. Null if there was none."""
    one_launch: StepsWithout | None = None
    """The experiment on the host: the compiled training function in a loop of one launch; null if there was none."""
    confirmed: bool | None = None
    """Whether an experiment agrees with the bottleneck; null if none decides, or without an experiment."""
    help: str | None = None
    """Advice on how to speed up the training."""

    @property
    def evidence(self) -> list[str]:
        """Return the texts that support the verdict."""
        texts = (self.shares_text, self.kernels_text, self.contention_text, self.quota_text, self.apart_text)
        return [text for text in texts if text]
