"""`HostProfiler`: all host profilers of one process, and their combined result."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from accelbench.profiling.host.counters import HostCounterSampler
from accelbench.profiling.host.flamegraph import write_flamegraph
from accelbench.profiling.host.sampling import BUDGET, RATE_HZ, HostSampler
from accelbench.profiling.host.shares import cpu_shares, data_makers, step_thread_shares, thread_shares
from accelbench.profiling.host.stacks import Stack, write_speedscope
from accelbench.profiling.machine.environment.files import read_text
from accelbench.profiling.records.host import (
    HostProfile,
    WindowKind,
)
from accelbench.profiling.records.point import Device

STACK_KINDS: tuple[WindowKind, ...] = ("native", "all")
"""Kinds of windows whose stacks are written to files; the kind with the most samples is last."""


class HostProfiler:
    """Profiler of a process during a `with` block; call `result()` afterwards.

    Do not open it around timed samples of a microbenchmark. The worker must call `pyspy.allow_tracing()` before. If the
    worker dies, the result covers the time until then. No other profile may use the same folder.
    """

    def __init__(
        self, pid: int, folder: Path, *, device: Device = "cpu", budget: float = BUDGET, rate_hz: int = RATE_HZ
    ) -> None:
        self._pid, self._folder, self._device = pid, folder, device
        self._sampler = HostSampler(pid, folder, budget=budget, rate_hz=rate_hz)
        self._counters = HostCounterSampler(pid)
        self._name = ""
        self._exit = ExitStack()

    def __enter__(self) -> HostProfiler:
        self._name = read_text(Path(f"/proc/{self._pid}/task/{self._pid}/comm")) or ""
        self._exit.enter_context(self._counters)
        self._exit.enter_context(self._sampler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()

    def result(self) -> HostProfile:
        """Return the profile, after writing speedscope files and flame graphs to the folder."""
        sampling, stacks, counters = self._sampler.result(), self._sampler.stacks(), self._counters.result()
        used = self._counters.threads()
        threads = thread_shares(stacks, used, self._name, self._device)
        step_thread = step_thread_shares(stacks, self._pid, self._busy())
        missing, files = list(sampling.missing), dict[str, str]()
        try:
            files = write_files(stacks, self._folder)
        except OSError as error:
            missing.append(f"the stacks could not be written: {error}")
        if step_thread is None:
            missing.append("time of the step thread: py-spy has too few samples of it")
        return HostProfile(
            step_thread=step_thread,
            cpu=cpu_shares(threads),
            data_makers=data_makers(stacks["all"], self._pid, sampling.looks("all")),
            gil_held=_share(sum(stacks["gil"].values()), sampling.looks("gil")),
            gil_holders=_holders(stacks["gil"], sampling.looks("gil")),
            threads=threads,
            counters=counters,
            sampling=sampling,
            files=files,
            missing=missing,
        )

    def stacks(self) -> dict[WindowKind, Counter[Stack]]:
        """Return the sampled stacks by kind of window."""
        return self._sampler.stacks()

    def _busy(self) -> float | None:
        """Return the share of the time in which the step thread ran or was ready to run."""
        used, elapsed_s = self._counters.threads().get(self._pid), self._counters.elapsed_s
        if used is None or elapsed_s <= 0:
            return None
        return (used.cpu_s + (used.wait_s or 0.0)) / elapsed_s


def write_files(stacks: dict[WindowKind, Counter[Stack]], folder: Path) -> dict[str, str]:
    """Write a speedscope file and a flame graph of the Python frames, and of the native frames if there are any."""
    files: dict[str, str] = {}
    for kind in STACK_KINDS:
        if stacks[kind]:
            suffix = "" if kind == "all" else f"_{kind}"
            files |= {
                f"speedscope{suffix}": f"host{suffix}.speedscope.json",
                f"flamegraph{suffix}": f"host{suffix}.svg",
            }
            title = "Host time" + (", native frames" if suffix else "")
            write_speedscope(stacks[kind], folder / files[f"speedscope{suffix}"], title)
            write_flamegraph(stacks[kind], folder / files[f"flamegraph{suffix}"], title)
    return files


def _holders(stacks: Counter[Stack], samples: int) -> dict[str, float]:
    held: Counter[str] = Counter()
    for stack, times in stacks.items():
        held[stack.thread_name or f"thread {stack.thread}"] += times
    return {name: times / samples for name, times in held.most_common()} if samples else {}


def _share(times: int, samples: int) -> float | None:
    return min(1.0, times / samples) if samples else None
