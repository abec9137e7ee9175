"""Sampling of a running worker with py-spy, in short windows with bounded overhead.

py-spy writes its samples at the end of a window, so that a killed window is lost, and earlier ones are not. One pass
records either running threads or the holder of the GIL; the windows alternate between both (`WindowKind`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, sleep
from types import TracebackType

import psutil

from accelbench.profiling.host.pyspy import (
    STARTED,
    STOPPED,
    SamplingError,
    explain,
    find_pyspy,
    library_bytes,
    read_windows,
    record_command,
)
from accelbench.profiling.host.stacks import Stack, name_main_thread
from accelbench.profiling.machine.environment.files import read_text
from accelbench.profiling.records.host import WINDOW_KINDS, Sampling, Window, WindowKind

BUDGET = 0.03
"""The share of the worker's time that sampling may cost."""
RATE_HZ = 10
"""The looks per second: one costs a TensorFlow worker of a dozen threads 1.5 ms (measured, two cores), 1.5 % in all."""
FIRST_WINDOW_S, LONGEST_WINDOW_S = 2, 16
REST_SHARE = 1 / 3
"""The share of a window's length that passes after it: undisturbed steps to compare the others with."""
NATIVE_S_PER_BYTE = 4e-9
"""The cost of the first look at native frames, reading all symbols: 2 s for TensorFlow's 1 GB, more if uncached."""
POLL_S = 0.1
END_S = 10.0
"""The seconds that py-spy may take to write its file once it is interrupted."""
MAX_FAILURES = 3


class HostSampler:
    """Samples a process from `__enter__` to `__exit__` or to its death; `result()` and `stacks()` afterwards.

    Nothing that py-spy does wrong is raised: it is said in `Sampling.missing`. With a budget of 1 native frames are
    read at once, whatever they cost.
    """

    def __init__(self, pid: int, folder: Path, *, budget: float = BUDGET, rate_hz: int = RATE_HZ) -> None:
        self._pid, self._folder, self._budget, self._fastest = pid, folder, budget, rate_hz
        self._rates: dict[WindowKind, int] = dict.fromkeys(WINDOW_KINDS, rate_hz)
        self._rates["native"] = min(rate_hz, 2)
        self._windows: list[Window] = []
        self._missing: list[str] = []
        self._failures = 0
        self._stop = threading.Event()
        self._libraries = 0
        self._thread = threading.Thread(target=self._sample, name="host sampler", daemon=True)

    def __enter__(self) -> HostSampler:
        self._begin = self._end = perf_counter()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._end = perf_counter()

    def result(self) -> Sampling:
        missing = list(self._missing)
        if self._windows and not any(window.kind == "native" for window in self._windows):
            missing.append(f"native frames: {self._why_no_native()}")
        return Sampling(budget=self._budget, elapsed_s=self._end - self._begin, windows=self._windows, missing=missing)

    def stacks(self) -> dict[WindowKind, Counter[Stack]]:
        return {kind: name_main_thread(stacks, self._pid) for kind, stacks in read_windows(self._folder).items()}

    def _sample(self) -> None:
        try:
            program = find_pyspy()
            self._target = psutil.Process(self._pid)
            self._folder.mkdir(parents=True, exist_ok=True)
            for left in self._folder.glob("window-*"):  # a run left them that was interrupted and begins anew
                left.unlink()
            self._libraries = library_bytes(self._pid)
            for number, (kind, seconds) in enumerate(schedule()):
                if kind == "native" and not self._affords(self._native_cost()):
                    continue
                self._watch(program, kind, seconds, self._folder / f"window-{number:03}-{kind}.txt")
                if self._stop.wait(self._rest(seconds)) or not self._alive():
                    return
        except psutil.NoSuchProcess:
            self._missing.append("the worker had ended before it could be sampled")
        except (SamplingError, OSError) as error:
            self._missing.append(str(error))

    def _watch(self, program: Path, kind: WindowKind, seconds: int, output: Path) -> None:
        """Open one window; SamplingError when there is no use in trying another."""
        log, rate_hz = output.with_suffix(".log"), self._rates[kind]
        begin = perf_counter()
        with log.open("w") as complaints:
            process = subprocess.Popen(
                record_command(program, kind, self._pid, rate_hz, seconds, output),
                stdin=subprocess.DEVNULL,
                stdout=complaints,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C is meant for the run, which ends its windows itself
            )
        looked_s = self._await(process, log)
        cost_s = _cpu_seconds(process.pid)
        code, end = process.wait(), perf_counter()
        said = read_text(log) or ""
        log.unlink()
        if code == 0 and output.exists():
            looks = _looks(said, rate_hz, seconds, looked_s)
            self._windows.append(
                Window(kind=kind, begin_s=begin, end_s=end, rate_hz=rate_hz, looks=looks, cost_s=cost_s)
            )
            self._failures = 0
            self._rates[kind] = affordable_rate(self._budget, cost_s, looks, self._fastest)
            return
        output.unlink(missing_ok=True)
        if not self._stop.is_set() and self._alive():
            self._note_failure(code, said)

    def _await(self, process: subprocess.Popen[bytes], log: Path) -> float:
        """Wait until the window or the worker ends or the sampler is stopped; return the seconds that py-spy looked."""
        started = interrupted = 0.0
        while _is_running(process):
            now = perf_counter()
            if not started and STARTED in (read_text(log) or ""):
                started = now
            if interrupted:
                sleep(POLL_S)
                if now > interrupted + END_S:
                    process.kill()
            elif self._stop.wait(POLL_S):
                interrupted = perf_counter()
                process.send_signal(signal.SIGINT)  # it writes its file and ends
        return (interrupted or perf_counter()) - started if started else 0.0

    def _note_failure(self, code: int, said: str) -> None:
        self._failures += 1
        if code < 0:
            reason = f"py-spy was killed by {signal.Signals(-code).name}; that window is lost"
        else:
            reason = explain(said)
        if code >= 0 or self._failures == MAX_FAILURES:
            raise SamplingError(reason)
        self._missing.append(reason)

    def _rest(self, seconds: int) -> float:
        """Return the seconds until the next window: long enough for what was spent to stay within the budget."""
        spent = sum(window.cost_s for window in self._windows)
        return max(REST_SHARE * seconds, spent / self._budget - (perf_counter() - self._begin))

    def _affords(self, cost_s: float) -> bool:
        spent = sum(window.cost_s for window in self._windows)
        return self._budget >= 1 or spent + cost_s <= self._budget * (perf_counter() - self._begin)

    def _native_cost(self) -> float:
        """Return the seconds that the next native window will cost: as the last did, or by the libraries' size."""
        known = [window.cost_s for window in self._windows if window.kind == "native"]
        return known[-1] if known else NATIVE_S_PER_BYTE * self._libraries

    def _why_no_native(self) -> str:
        cost_s = self._native_cost()
        if self._affords(cost_s):
            return "the run ended before their turn came"
        return f"reading them once costs about {cost_s:.1f} s, more than {self._budget:.0%} of this run"

    def _alive(self) -> bool:
        return self._target.is_running() and self._target.status() != psutil.STATUS_ZOMBIE


def schedule() -> Iterator[tuple[WindowKind, int]]:
    """Yield windows and their seconds without end: short ones first, so that a short run has some of each kind."""
    seconds = FIRST_WINDOW_S
    while True:
        for kind in WINDOW_KINDS:
            yield kind, seconds
        seconds = min(2 * seconds, LONGEST_WINDOW_S)


def affordable_rate(budget: float, cost_s: float, looks: int, fastest: int) -> int:
    """Return the looks a second that the budget allows if each costs what those did; at least 1, py-spy's slowest."""
    return fastest if cost_s * fastest <= budget * looks else max(1, int(budget * looks / cost_s))


def _looks(said: str, rate_hz: int, seconds: int, looked_s: float) -> int:
    """Return how often a window looked: as ordered, less the last look, unless it or the worker was stopped."""
    ordered = max(0, rate_hz * seconds - 1)
    return min(ordered, round(rate_hz * looked_s)) if STOPPED in said else ordered


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    """Return whether it runs; one that has ended is left to be asked for its CPU time."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
