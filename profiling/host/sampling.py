"""Sampling of a running worker with py-spy, in short windows with bounded overhead.

py-spy writes its samples at the end of a window: if it is killed, only the current window is lost. One window records
either running threads or the holder of the GIL; the windows alternate between the kinds (`WindowKind`).
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

from accelbench.profiling.child import child_environment
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
"""Maximum share of the worker's time that sampling may cost."""
RATE_HZ = 10
"""Samples per second; one costs a TensorFlow worker with 12 threads 1.5 ms (measured, two cores): 1.5 % in all."""
FIRST_WINDOW_S, LONGEST_WINDOW_S = 2, 16
REST_SHARE = 1 / 3
"""Pause after a window as a share of its length; its unsampled steps are the reference for the overhead."""
NATIVE_S_PER_BYTE = 4e-9
"""Cost of the first native sample, which reads all symbols: 2 s for TensorFlow's 1 GB, more if not cached."""
POLL_S = 0.1
END_S = 10.0
"""Seconds that py-spy may take to write its file after an interrupt."""
MAX_FAILURES = 3


class HostSampler:
    """Sampler of a process from `__enter__` to `__exit__` or to its death; call `result()` and `stacks()` afterwards.

    Failures of py-spy are not raised: `Sampling.missing` lists them. With a budget of 1, native frames are read
    at once, at any cost.
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
            for leftover in self._folder.glob("window-*"):  # from an interrupted run
                leftover.unlink()
            self._libraries = library_bytes(self._pid)
            for number, (kind, seconds) in enumerate(schedule()):
                if kind == "native" and not self._affords(self._native_cost()):
                    continue
                self._watch(program, kind, seconds, self._folder / f"window-{number:03}-{kind}.txt")
                if self._stop.wait(self._rest(seconds)) or not self._alive():
                    return
        except psutil.NoSuchProcess:
            self._missing.append("the worker ended before the first sample")
        except (SamplingError, OSError) as error:
            self._missing.append(str(error))

    def _watch(self, program: Path, kind: WindowKind, seconds: int, output: Path) -> None:
        """Run one window; raise SamplingError if further windows would fail, too."""
        log, rate_hz = output.with_suffix(".log"), self._rates[kind]
        begin = perf_counter()
        with log.open("w") as complaints:
            process = subprocess.Popen(
                record_command(program, kind, self._pid, rate_hz, seconds, output),
                stdin=subprocess.DEVNULL,
                stdout=complaints,
                stderr=subprocess.STDOUT,
                env=child_environment(),
                start_new_session=True,  # Ctrl-C must reach the run only, which ends its windows itself
            )
        sampled_s = self._await(process, log)
        cost_s = _cpu_seconds(process.pid)
        code, end = process.wait(), perf_counter()
        printed = read_text(log) or ""
        log.unlink()
        if code == 0 and output.exists():
            samples = _sample_count(printed, rate_hz, seconds, sampled_s)
            self._windows.append(
                Window(kind=kind, begin_s=begin, end_s=end, rate_hz=rate_hz, looks=samples, cost_s=cost_s)
            )
            self._failures = 0
            self._rates[kind] = affordable_rate(self._budget, cost_s, samples, self._fastest)
            return
        output.unlink(missing_ok=True)
        if not self._stop.is_set() and self._alive():
            self._note_failure(code, printed)

    def _await(self, process: subprocess.Popen[bytes], log: Path) -> float:
        """Wait until the window or the worker ends or the sampler is stopped; return the seconds of sampling."""
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
                process.send_signal(signal.SIGINT)  # py-spy writes its file and exits
        return (interrupted or perf_counter()) - started if started else 0.0

    def _note_failure(self, code: int, printed: str) -> None:
        self._failures += 1
        if code < 0:
            reason = f"py-spy was killed by {signal.Signals(-code).name}; its last window is lost"
        else:
            reason = explain(printed)
        if code >= 0 or self._failures == MAX_FAILURES:
            raise SamplingError(reason)
        self._missing.append(reason)

    def _rest(self, seconds: int) -> float:
        """Return the seconds until the next window, so that the cost so far stays within the budget."""
        spent = sum(window.cost_s for window in self._windows)
        return max(REST_SHARE * seconds, spent / self._budget - (perf_counter() - self._begin))

    def _affords(self, cost_s: float) -> bool:
        spent = sum(window.cost_s for window in self._windows)
        return self._budget >= 1 or spent + cost_s <= self._budget * (perf_counter() - self._begin)

    def _native_cost(self) -> float:
        """Return the expected cost of the next native window in seconds: the last one's, or by the libraries' size."""
        known = [window.cost_s for window in self._windows if window.kind == "native"]
        return known[-1] if known else NATIVE_S_PER_BYTE * self._libraries

    def _why_no_native(self) -> str:
        cost_s = self._native_cost()
        if self._affords(cost_s):
            return "the run ended before their first window"
        return f"reading the symbols takes about {cost_s:.1f} s, more than {self._budget:.0%} of this run"

    def _alive(self) -> bool:
        return self._target.is_running() and self._target.status() != psutil.STATUS_ZOMBIE


def schedule() -> Iterator[tuple[WindowKind, int]]:
    """Yield kinds and lengths of windows endlessly, short ones first, so that a short run has each kind."""
    seconds = FIRST_WINDOW_S
    while True:
        for kind in WINDOW_KINDS:
            yield kind, seconds
        seconds = min(2 * seconds, LONGEST_WINDOW_S)


def affordable_rate(budget: float, cost_s: float, samples: int, fastest: int) -> int:
    """Return the samples per second that the budget allows, at the measured cost; at least 1, py-spy's minimum."""
    return fastest if cost_s * fastest <= budget * samples else max(1, int(budget * samples / cost_s))


def _sample_count(printed: str, rate_hz: int, seconds: int, sampled_s: float) -> int:
    """Return the number of samples of a window: the requested number less one, or fewer if it ended early."""
    requested = max(0, rate_hz * seconds - 1)
    return min(requested, round(rate_hz * sampled_s)) if STOPPED in printed else requested


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    """Return whether the process runs; an ended one is not reaped, so that its CPU time stays readable."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
