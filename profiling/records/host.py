"""Records of the host profiler."""

from __future__ import annotations

from operator import itemgetter
from typing import Literal, get_args

from accelbench.profiling.records.stored import Stored


class HostCounters(Stored):
    """The counters of one process and its machine, from begin to end; `unknown` says why one of them is null."""

    elapsed_s: float
    """The time over which it was counted, in seconds."""
    core_utilisation: dict[int, float] | None = None
    """The share of the time, 0 to 1, in which each logical CPU of the machine was busy, with whatever."""
    cpu_s: float | None = None
    """The CPU time that all threads of the process used, in seconds."""
    run_queue_wait_s: float | None = None
    """The seconds that threads of the process were ready to run while no CPU was free, summed over the threads."""
    voluntary_switches: int | None = None
    """The number of times that a thread of the process gave up its CPU in order to wait."""
    involuntary_switches: int | None = None
    """The number of times that the kernel took the CPU from a thread of the process."""
    steal_s: float | None = None
    """The seconds that a hypervisor gave the machine's CPUs to another guest, summed over the CPUs."""
    throttled_periods: int | None = None
    """The number of periods in which the control group's CPU quota ran out."""
    throttled_s: float | None = None
    """The seconds that the control group stood still as its CPU quota had run out, summed over the CPUs."""
    minor_faults: int | None = None
    """The number of page faults of the process that needed no reading from storage."""
    major_faults: int | None = None
    """The number of page faults of the process that had to wait for storage."""
    rss_peak_bytes: int | None = None
    """The largest resident set since the process began, in bytes."""
    disk_read_bytes: int | None = None
    """The bytes that the process had read from storage; what the page cache answered is not in them."""
    disk_written_bytes: int | None = None
    """The bytes that the process sent on their way to storage."""
    network_received_bytes: int | None = None
    """The bytes received by all processes of the process's network namespace, loopback left out."""
    network_sent_bytes: int | None = None
    """The bytes sent by all processes of the process's network namespace, loopback left out."""
    unknown: dict[str, str] = {}
    """The counters that could not be read, each with the reason."""


WindowKind = Literal["all", "running", "gil", "native"]
"""The threads that a window of py-spy looks at.

They are all Python threads; only those that run; only the one that holds the GIL; or all, with their C and C++ frames.
"""
WINDOW_KINDS: tuple[WindowKind, ...] = get_args(WindowKind)

Category = Literal["dispatch", "input", "runtime", "kernels", "waiting", "other"]
"""The kind of work that a thread was doing.

In this order: Python that leads up to the framework; making or awaiting data; the framework itself; BLAS and other
loops over arrays; waiting for the device or for nothing; what no rule names.
"""
CATEGORIES: tuple[Category, ...] = get_args(Category)

Shares = dict[Category, float]
"""The share of each kind of work, 0 to 1; the shares add up to 1."""


class ThreadShare(Stored):
    """One Python thread, or all native threads of one name."""

    name: str
    """The thread's name, as Python has it, or as the kernel has it of a native thread."""
    threads: int
    """The number of threads that are taken together here."""
    cpu_s: float
    """The CPU time that they used, in seconds."""
    wait_s: float | None
    """The seconds that they were ready to run while no CPU was free; null where the kernel does not tell."""
    shares: Shares
    """The share of their CPU time that each kind of work took."""


class Window(Stored):
    """One run of py-spy."""

    kind: WindowKind
    """The threads that py-spy looked at; `native` are all of them, with their C and C++ frames."""
    begin_s: float
    """The start of py-spy, in seconds on the machine's monotonic clock (`time.perf_counter`)."""
    end_s: float
    """The end of py-spy, in seconds on the same clock."""
    rate_hz: int
    """The number of looks per second that were ordered."""
    looks: int
    """The number of looks at the worker, whether or not a thread was worth a stack."""
    cost_s: float
    """The CPU seconds of py-spy: it works while the worker stands still, so about what the worker lost."""


class Sampling(Stored):
    """The work of py-spy on one process, and what it could not do."""

    budget: float
    """The share of the worker's time that sampling may cost, 0 to 1."""
    elapsed_s: float
    """The time over which the process was sampled, in seconds."""
    windows: list[Window] = []
    """The runs of py-spy that gave stacks, in the order of time."""
    missing: list[str] = []
    """The sentences that say what is not there, and why."""

    def looks(self, kind: WindowKind) -> int:
        return sum(window.looks for window in self.windows if window.kind == kind)

    @property
    def cost(self) -> float:
        """Return the estimated share of the worker's time that sampling took."""
        return sum(window.cost_s for window in self.windows) / self.elapsed_s if self.elapsed_s else 0.0


class SamplingOverhead(Stored):
    """The factor by which the work takes longer with the probe than without it."""

    factor: float
    """The median of the pairs' factors: time with the probe over time without it."""
    low: float
    """The lower end of the median's interval."""
    high: float
    """The upper end of the median's interval."""
    confidence: float
    """The coverage that the interval really has, 0 to 1."""
    pairs: int
    """The number of pairs of stretches, one with the probe and one without it."""

    def sentence(self) -> str:
        cost, low, high = (100 * (value - 1) for value in (self.factor, self.low, self.high))
        return f"{cost:+.1f} % ({low:+.1f} to {high:+.1f} %, {self.pairs} pairs)"


class HostProfile(Stored):
    """The host's time and where it went; what is null has its reason in `missing`."""

    step_thread: Shares | None = None
    """The shares of the wall time of the main thread, which drives the steps."""
    cpu: Shares | None = None
    """The shares of the CPU time of all threads."""
    data_makers: float | None = None
    """The mean number of other threads that were making data (`accelbench.profiling.host.shares.data_makers`)."""
    gil_held: float | None = None
    """The share of the wall time, 0 to 1, in which some thread held the interpreter's lock."""
    gil_holders: dict[str, float] = {}
    """The share of the wall time, 0 to 1, in which each thread held the lock, by the thread's name."""
    threads: list[ThreadShare] = []
    """The threads of the process, the busiest first."""
    counters: HostCounters
    """The counters of the process and its machine meanwhile."""
    sampling: Sampling
    """The work of py-spy that the shares rest on."""
    overhead: SamplingOverhead | None = None
    """The cost of py-spy to the steps that it watched; null where no window has steps in it and after it."""
    files: dict[str, str] = {}
    """The files for a person, below the profile's folder: `speedscope`, `flamegraph`, and with native frames
    `…_native`.
    """
    missing: list[str] = []
    """The sentences that say what is not there, and why."""

    def largest(self) -> Category | None:
        """Return the kind of work that took most of the step thread's wall time."""
        return max(self.step_thread.items(), key=itemgetter(1))[0] if self.step_thread else None
