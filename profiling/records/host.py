"""Records of the host profiler."""

from __future__ import annotations

from operator import itemgetter
from typing import Literal, get_args

from accelbench.profiling.records.stored import Stored


class HostCounters(Stored):
    """Counters of one process and its machine over a period; `unknown` has the reason for each null."""

    elapsed_s: float
    """The length of the period, in seconds."""
    core_utilisation: dict[int, float] | None = None
    """The utilisation of each logical CPU by all processes of the machine, 0 to 1."""
    cpu_s: float | None = None
    """The CPU time that all threads of the process used, in seconds."""
    run_queue_wait_s: float | None = None
    """The run-queue wait (runnable, but no CPU free) in seconds, summed over the process's threads."""
    voluntary_switches: int | None = None
    """The number of voluntary context switches of the process: a thread blocked."""
    involuntary_switches: int | None = None
    """The number of involuntary context switches of the process: the kernel preempted a thread."""
    steal_s: float | None = None
    """The steal time (the hypervisor ran another guest) in seconds, summed over the CPUs."""
    throttled_periods: int | None = None
    """The number of periods in which the control group exhausted its CPU quota."""
    throttled_s: float | None = None
    """The seconds that the control group was throttled by its CPU quota, summed over the CPUs."""
    minor_faults: int | None = None
    """The number of page faults of the process that needed no read from storage."""
    major_faults: int | None = None
    """The number of page faults of the process that had to wait for storage."""
    rss_peak_bytes: int | None = None
    """The peak resident set size since the process started, in bytes."""
    disk_read_bytes: int | None = None
    """The bytes that the process read from storage, without reads served by the page cache."""
    disk_written_bytes: int | None = None
    """The bytes that the process wrote to storage."""
    network_received_bytes: int | None = None
    """The bytes received by all processes of the process's network namespace, without loopback."""
    network_sent_bytes: int | None = None
    """The bytes sent by all processes of the process's network namespace, without loopback."""
    unknown: dict[str, str] = {}
    """The counters that could not be read, each with the reason."""


WindowKind = Literal["all", "running", "gil", "native"]
"""The threads that a window of py-spy samples.

In order: all Python threads; running threads; the thread that holds the GIL; all threads, with C and C++ frames.
"""
WINDOW_KINDS: tuple[WindowKind, ...] = get_args(WindowKind)

Category = Literal["dispatch", "input", "runtime", "kernels", "waiting", "other"]
"""The kind of work of a thread.

In order: Python code that calls the framework; making data or waiting for it; the framework itself; BLAS and other
loops over arrays; waiting for the device or idle; anything that no rule classifies.
"""
CATEGORIES: tuple[Category, ...] = get_args(Category)

Shares = dict[Category, float]
"""The share of each kind of work, 0 to 1; the shares add up to 1."""


class ThreadShare(Stored):
    """One Python thread, or all native threads of one name."""

    name: str
    """The thread's name in Python, or in the kernel for a native thread."""
    threads: int
    """The number of threads in this entry."""
    cpu_s: float
    """The CPU time of these threads, in seconds."""
    wait_s: float | None
    """The run-queue wait of these threads, in seconds; null where the kernel does not provide it."""
    shares: Shares
    """The share of each kind of work in the CPU time of these threads."""


class Window(Stored):
    """One run of py-spy."""

    kind: WindowKind
    """The sampled threads; `native` is all of them, with C and C++ frames."""
    begin_s: float
    """The start of py-spy, in seconds on the machine's monotonic clock (`time.perf_counter`)."""
    end_s: float
    """The end of py-spy, in seconds on the same clock."""
    rate_hz: int
    """The requested sampling rate, in samples per second."""
    looks: int
    """The number of samples of the worker, including samples without a stack."""
    cost_s: float
    """The CPU time of py-spy in seconds, which estimates the time it stopped the worker."""


class Sampling(Stored):
    """Sampling of one process by py-spy."""

    budget: float
    """The largest share of the worker's time that sampling may cost, 0 to 1."""
    elapsed_s: float
    """The length of the sampled period, in seconds."""
    windows: list[Window] = []
    """The runs of py-spy that returned stacks, in order of time."""
    missing: list[str] = []
    """The missing results, each with the reason, as text."""

    def looks(self, kind: WindowKind) -> int:
        return sum(window.looks for window in self.windows if window.kind == kind)

    @property
    def cost(self) -> float:
        """Return the estimated share of the worker's time spent on sampling."""
        return sum(window.cost_s for window in self.windows) / self.elapsed_s if self.elapsed_s else 0.0


class SamplingOverhead(Stored):
    """Overhead of a profiler as a ratio: time with the profiler ÷ time without it."""

    factor: float
    """The median ratio of the pairs."""
    low: float
    """The lower end of the median's interval."""
    high: float
    """The upper end of the median's interval."""
    confidence: float
    """The actual coverage of the interval, 0 to 1."""
    pairs: int
    """The number of pairs of periods, one with the profiler and one without it."""

    def sentence(self) -> str:
        cost, low, high = (100 * (value - 1) for value in (self.factor, self.low, self.high))
        return f"{cost:+.1f} % ({low:+.1f} to {high:+.1f} %, {self.pairs} pairs)"


class HostProfile(Stored):
    """Profile of the host's time; `missing` has the reason for each null."""

    step_thread: Shares | None = None
    """The shares of the main thread's wall time; the main thread runs the steps."""
    cpu: Shares | None = None
    """The shares of the CPU time of all threads."""
    data_makers: float | None = None
    """The mean number of other threads that make data (`accelbench.profiling.host.shares.data_makers`)."""
    gil_held: float | None = None
    """The share of the wall time, 0 to 1, in which any thread held the GIL."""
    gil_holders: dict[str, float] = {}
    """The share of the wall time, 0 to 1, in which each thread held the GIL, by thread name."""
    threads: list[ThreadShare] = []
    """The threads of the process, the busiest first."""
    counters: HostCounters
    """The counters of the process and its machine during the profile."""
    sampling: Sampling
    """The sampling from which the shares are computed."""
    overhead: SamplingOverhead | None = None
    """The overhead of py-spy on the sampled steps; null if no window has steps both in it and after it."""
    files: dict[str, str] = {}
    """The files for viewers, below the profile's folder: `speedscope`, `flamegraph`, and with native frames
    `…_native`.
    """
    missing: list[str] = []
    """The missing results, each with the reason, as text."""

    def largest(self) -> Category | None:
        """Return the kind of work with the largest share of the step thread's wall time."""
        return max(self.step_thread.items(), key=itemgetter(1))[0] if self.step_thread else None
