"""What the host was seen to do while it trained."""

from __future__ import annotations

from operator import itemgetter
from typing import Literal, get_args

from profiling.records.stored import Stored


class HostCounters(Stored):
    """One process and its machine from begin to end; what could not be read is null, and `unknown` says why."""

    elapsed_s: float
    core_utilisation: dict[int, float] | None = None
    """Per logical CPU of the machine: the share of the time in which it was busy, with whatever."""
    cpu_s: float | None = None
    """Of the process, all threads."""
    run_queue_wait_s: float | None = None
    """Its threads were ready to run and no CPU was free, summed over the threads."""
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None
    steal_s: float | None = None
    """A hypervisor gave the machine's CPUs to another guest."""
    throttled_periods: int | None = None
    throttled_s: float | None = None
    """The control group's CPU quota had run out, summed over the CPUs."""
    minor_faults: int | None = None
    major_faults: int | None = None
    rss_peak_bytes: int | None = None
    """The largest resident set since the process began."""
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    """Of the process, as they reached the storage; what the page cache answered is not in them."""
    network_received_bytes: int | None = None
    network_sent_bytes: int | None = None
    """Of the process's network namespace, all processes, loopback left out."""
    unknown: dict[str, str] = {}


WindowKind = Literal["all", "running", "gil", "native"]
"""All Python threads; only those that run; only the one that holds the GIL; all, with their C and C++ frames."""
WINDOW_KINDS: tuple[WindowKind, ...] = get_args(WindowKind)

Category = Literal["dispatch", "input", "runtime", "kernels", "waiting", "other"]
"""Python that leads up to the framework; making or awaiting data; the framework itself; BLAS and other loops over
arrays; waiting for the device or for nothing; what no rule names."""
CATEGORIES: tuple[Category, ...] = get_args(Category)

Shares = dict[Category, float]
"""They add up to 1."""


class ThreadShare(Stored):
    """One thread, or all native ones of one name."""

    name: str
    threads: int
    cpu_s: float
    wait_s: float | None
    """Ready to run, and no CPU was free."""
    shares: Shares
    """Of its CPU time."""


class Window(Stored):
    """One run of py-spy."""

    kind: WindowKind
    begin_s: float
    """On the machine's monotonic clock (`time.perf_counter`), from the start of the program to its end."""
    end_s: float
    rate_hz: int
    looks: int
    """How often it looked at the worker, whether or not a thread was worth a stack."""
    cost_s: float
    """CPU seconds of py-spy: it works while the worker stands still, so about what the worker lost."""


class Sampling(Stored):
    """What py-spy did, and what it could not."""

    budget: float
    elapsed_s: float
    windows: list[Window] = []
    missing: list[str] = []
    """What is not there and why, in sentences."""

    def looks(self, kind: WindowKind) -> int:
        return sum(window.looks for window in self.windows if window.kind == kind)

    @property
    def cost(self) -> float:
        """The estimated share of the worker's time that sampling took."""
        return sum(window.cost_s for window in self.windows) / self.elapsed_s if self.elapsed_s else 0.0


class Overhead(Stored):
    """By what factor the work takes longer with the probe than without."""

    factor: float
    low: float
    high: float
    confidence: float
    pairs: int

    def sentence(self) -> str:
        cost, low, high = (100 * (value - 1) for value in (self.factor, self.low, self.high))
        return f"{cost:+.1f} % ({low:+.1f} to {high:+.1f} %, {self.pairs} pairs)"


class HostProfile(Stored):
    """Where the host's time went; what is null has its reason in `missing`."""

    step_thread: Shares | None = None
    """Of the wall time of the thread that drives the steps, the main one."""
    cpu: Shares | None = None
    """Of the CPU time of all threads."""
    data_makers: float | None = None
    """How many other threads were making data, on average (`profiling.host.shares.data_makers`)."""
    gil_held: float | None = None
    """Share of the wall time in which some thread held the interpreter's lock."""
    gil_holders: dict[str, float] = {}
    """By thread: the share of the wall time in which it held the lock."""
    threads: list[ThreadShare] = []
    counters: HostCounters
    sampling: Sampling
    overhead: Overhead | None = None
    """What py-spy cost the steps that it watched; None where no steps were counted on both sides of a window."""
    files: dict[str, str] = {}
    """Names below the profile's folder: `speedscope`, `flamegraph`, and with native frames `…_native`."""
    missing: list[str] = []

    def largest(self) -> Category | None:
        """Where most of the step thread's wall time went."""
        return max(self.step_thread.items(), key=itemgetter(1))[0] if self.step_thread else None
