"""Observation of a running script: untouched steps, a trace, samples of the host, and experiments.

Each is a separate part of the script's run, so that no profiler affects the timed steps. The untouched steps come
first; after the last part, all hooks are removed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from math import ceil
from pathlib import Path
from time import perf_counter, sleep
from typing import NamedTuple

import psutil

from accelbench.profiling.analysis.bottleneck import bottleneck
from accelbench.profiling.host.counters import HostCounterSampler, read_process
from accelbench.profiling.host.profiler import HostProfiler
from accelbench.profiling.measure.script.events import ScriptEvents, ScriptStep
from accelbench.profiling.measure.script.launch import rank_folders
from accelbench.profiling.measure.script.lines import CodeLines, sampled_lines
from accelbench.profiling.records.bottleneck import Bottleneck, Cause, CpuTime
from accelbench.profiling.records.host import HostProfile
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.trace import Capture, TraceAnalysis
from accelbench.profiling.trace import chrome
from accelbench.profiling.trace.analysis import analyze
from accelbench.profiling.trace.lines import Unreadable

WARMUP_STEPS = 5
"""Number of steps after the first one that are not timed."""
FEWEST_STEPS = 10
"""Smallest number of timed steps for a result."""
POLL_S = 0.05
TRACE_S, FEWEST_TRACED, MOST_TRACED = 2.0, 3, 50
"""Approximate duration of the traced steps in seconds, and their smallest and largest number."""
SAMPLED_S = 2.5
"""Shortest duration of the host profile in seconds."""
BUDGET, RATE_HZ = 0.2, 50
"""Share of the script's time that py-spy may cost while it samples, and samples per second."""
EXPERIMENT_S, FEWEST_PREFETCHED, MOST_PREFETCHED = 2.0, 20, 200
"""Approximate duration of the experiment in seconds, and its smallest and largest number of steps."""
AFTER_S = 1.0
"""Shortest duration of the untouched steps after an experiment in seconds."""
PAUSE_S = 8.0
"""Approximate maximum of the pauses in which batches are fetched, in seconds."""
REPETITIONS = 5
"""Number of experiments on the input with short steps: a machine's speed changes from moment to moment."""
MEMORY_SHARE = 0.1
"""Share of the free memory that prefetched batches may occupy."""
RANKS_S = 20.0
"""Seconds to wait for further ranks after the first one has started; on other hosts, they may not appear."""
PARTS_S, FEWEST_PARTED, MOST_PARTED = 5.0, 60, 400
"""Shortest duration of the steps with timed parts in seconds, and their smallest and largest number."""
MEMORY_EVERY_S = 1.0
"""Seconds between two readings of the script's memory."""
MEMORY_S = 2.0
"""Seconds to wait for the statistics of the device's memory, besides two steps."""
COMPILE_S = 300.0
"""Seconds to wait for the end of the experiment on the host, which compiles the training function again."""
REPLY_S = 60.0
"""Seconds to wait for the end of the trace or the experiment, besides the steps themselves."""
NO_STEP_S, LATE_STEP_S = 60.0, 1800.0
"""Seconds without a step after which a script is sampled, and then those after which no step is expected any more."""
NO_FRAMEWORK_S = 10.0
"""Seconds after which a script without an imported framework is sampled."""


class Experiment(NamedTuple):
    """Result of an experiment."""

    repetitions: list[list[float]]
    """Seconds of the steps without a cause, by repetition; of several ranks, the steps of the slowest one."""
    after: list[ScriptStep]
    """Untouched steps directly after the experiment, for comparison; empty if the script ended."""


class ScriptObserver:
    """Observation of a script while `running()`; the attributes then hold the results, and `missing` the reasons."""

    def __init__(
        self,
        running: Callable[[], bool],
        exchange: Path,
        run: Path,
        seconds: float,
        experiments: bool,
        ranked: bool = False,
    ) -> None:
        """Observe by the folder `exchange`; if `ranked`, a launcher starts the ranks, each with a folder in it."""
        self.running, self._run, self._seconds, self._experiments = running, run, seconds, experiments
        self.events = ScriptEvents(exchange)
        """Events of the script; of several ranks, those of the first one, on this host if any runs on it."""
        self.ranked = ranked
        self.others: dict[int, ScriptEvents] = {}
        """Events of the other ranks."""
        self.rank = 0
        self._exchange = exchange
        self.untouched: list[ScriptStep] = []
        self.experiments: dict[Cause, Experiment] = {}
        """Experiments by the cause that they took away."""
        self.same_random_numbers = True
        self.cpu: CpuTime | None = None
        self.device = "cpu"
        self.capture: Capture | None = None
        self.trace: TraceAnalysis | None = None
        self.host: HostProfile | None = None
        self.lines = CodeLines([], [], [])
        self.host_peak: int | None = None
        """Largest resident memory of the script's process so far, in bytes."""
        self.missing: list[str] = []
        self.elapsed_s = self._begin = self._found = self._memory_due = 0.0

    def observe(self) -> None:
        """Observe the script until all parts are finished, or the script ends."""
        self._until_detached(self._observe_all)

    def observe_steps(self, limit_s: float) -> None:
        """Time untouched steps only; the first one is waited for at most `limit_s`."""

        def observe() -> None:
            if self._wait(lambda: bool(self.events.steps), limit_s):
                self._time_steps()

        self._until_detached(observe)

    def _observe_all(self) -> None:
        self._wait(self._steps_or_none, NO_STEP_S)
        if not self.events.steps:
            self._sample_host()
            self._wait(lambda: bool(self.events.steps), LATE_STEP_S if self.events.framework else 0.0)
        if self.events.steps:
            self._time_steps()
            self._time_parts()
            self._count_flops()
            self._trace_steps()
            self._sample_host()
        if self.untouched:
            self._take_input_away()
            self._take_exchange_away()
            self._take_host_away()
        if self.events.steps and self.running() and not self.events.error:
            self.events.send("memory")
            self._wait(lambda: self.events.memory is not None, MEMORY_S + 2 * self._step_s() if self.untouched else 0.0)

    def _until_detached(self, observe: Callable[[], None]) -> None:
        self._begin = perf_counter()
        try:
            observe()
        finally:
            self._memory_due = 0.0
            self._read()
            for events in self._all_events():
                events.send("detach")
            self.elapsed_s = perf_counter() - self._begin

    def _steps_or_none(self) -> bool:
        """Return whether steps have begun, or are unlikely because the script has imported no framework so far."""
        waited = perf_counter() - self._begin > NO_FRAMEWORK_S and not self._awaits_ranks()
        return bool(self.events.steps) or (waited and not self.events.framework)

    def _wait(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Wait for a condition on the events; return False if the script ended or the time is over."""
        begin = perf_counter()
        while True:
            running = self.running()
            self._read()
            if condition():
                return True
            if not running or self.events.error or perf_counter() - begin > limit_s:
                return False
            sleep(POLL_S)

    def _awaits_ranks(self) -> bool:
        return self.ranked and self.events.pid is None

    def _all_events(self) -> list[ScriptEvents]:
        return [self.events, *self.others.values()]

    def _find_ranks(self) -> None:
        """Find the ranks, once one of them has been running for some time."""
        found = {rank: ScriptEvents(folder) for rank, folder in rank_folders(self._exchange).items()}
        if not found:
            return
        self._found = self._found or perf_counter()
        for events in found.values():
            events.read()
        started = {rank: events for rank, events in found.items() if events.pid is not None}
        world = max((events.world for events in started.values()), default=1)
        if not started or (len(started) < world and perf_counter() - self._found < RANKS_S):
            return
        self.rank = min([rank for rank, events in started.items() if events.is_local] or started)
        self.events = found.pop(self.rank)
        self.others = found

    def _read(self) -> None:
        if self._awaits_ranks():
            self._find_ranks()
        for events in self._all_events():
            events.read()
        if self.events.is_local and perf_counter() >= self._memory_due:
            self._memory_due = perf_counter() + MEMORY_EVERY_S
            assert self.events.pid is not None
            try:
                self.host_peak = read_process(self.events.pid)["rss_peak_bytes"] or self.host_peak
            except (OSError, KeyError, ValueError):
                return  # the process has ended

    def _time_steps(self) -> None:
        """Time steps without any profiler, for the requested seconds and at least `FEWEST_STEPS` steps."""
        source: str | None = None
        while source != self.events.source and self._wait(lambda: len(self.events.steps) >= WARMUP_STEPS, float("inf")):
            source = self.events.source
            self._time_steps_of(source)

    def _time_steps_of(self, source: str | None) -> None:
        """Time steps of this source; none if the script has a better source of steps by the end."""
        if (first := self._drained()) is None or self.events.source != source:
            return
        counters = None
        with ExitStack() as stack:
            if self.events.is_local:
                assert self.events.pid is not None
                counters = stack.enter_context(HostCounterSampler(self.events.pid))
            steps = self._steps_from(first, self._seconds)
        if self.events.source != source:
            return
        self.untouched = steps
        if counters and (threads := counters.threads().values()):
            waits = [thread.wait_s or 0.0 for thread in threads]
            self.cpu = CpuTime(
                wall_s=counters.elapsed_s,
                run_s=sum(thread.cpu_s for thread in threads),
                wait_s=sum(waits),
                longest_wait_s=max(waits),
                throttled_s=counters.result().throttled_s,
            )

    def _steps_from(self, first: int, seconds: float) -> list[ScriptStep]:
        """Return the next steps for these seconds, at least `FEWEST_STEPS`, with the wait for the device at their end.

        `first` is the number of steps so far, up to a wait for the device: frameworks run ahead of it.
        """
        begin, source = perf_counter(), self.events.source

        def timed() -> bool:
            long_enough = len(self.events.steps) - first >= FEWEST_STEPS and perf_counter() - begin >= seconds
            return long_enough or self.events.source != source

        self._wait(timed, float("inf"))
        last = self._drained()
        return self.events.steps[first:last]

    def _steps_after(self) -> list[ScriptStep]:
        """Return untouched steps after an experiment; empty if the script ends before."""
        first = self._drained()
        steps = [] if first is None else self._steps_from(first, AFTER_S)
        return steps if len(steps) >= FEWEST_STEPS else []

    def _drained(self) -> int | None:
        """Let the script wait for the device at the end of a step; return the number of steps until then, if it did."""
        known = self.events.drains
        self.events.send("drain")
        return self.events.drained if self._wait(lambda: self.events.drains > known, float("inf")) else None

    def _step_s(self) -> float:
        return sum(step.seconds for step in self.untouched) / len(self.untouched)

    def _time_parts(self) -> None:
        """Time the parts of the same steps in all ranks."""
        if not self.others or not self.untouched or not self._observed("the comparison of the ranks"):
            return
        steps = max(FEWEST_PARTED, min(MOST_PARTED, ceil(max(PARTS_S, self._seconds) / self._step_s())))
        if reason := self._all_ranks(steps, lambda events: events.parted, "parts", str(steps)):
            self.missing.append(f"the comparison of the ranks: {reason}")

    def _count_flops(self) -> None:
        if not self.untouched or not self._observed("the FLOPs of a step"):
            return
        self.events.send("count")
        if not self._wait(lambda: self.events.flops is not None, REPLY_S + 5 * self._step_s()):
            self.missing.append(f"the FLOPs of a step: {self._why_ended()}")
            return
        assert self.events.flops is not None
        if reason := self.events.flops[1]:
            self.missing.append(f"the FLOPs of a step: {reason}")

    def _trace_steps(self) -> None:
        if not self.untouched or not self._observed("the trace"):
            return
        folder = self._run / "traces" / "script"
        folder.mkdir(parents=True, exist_ok=True)
        steps = min(MOST_TRACED, max(FEWEST_TRACED, ceil(TRACE_S / self._step_s())))
        self.events.send("trace", str(steps), str(folder.absolute()))
        if not self._wait(lambda: self.events.traced is not None, REPLY_S + 5 * steps * self._step_s()):
            self.missing.append(f"the trace: {self._why_ended()}")
            return
        assert self.events.traced is not None
        self.device, reason = self.events.traced
        raw = folder / "raw.json"
        if raw.exists():
            try:
                chrome.finish(raw, folder / chrome.FILES.replace("*", "script"))
            except (OSError, Unreadable) as error:
                reason = str(error)
        self.capture = Capture(reason=reason, steps=0 if reason else steps)
        if reason:
            self.missing.append(f"the trace: {reason}")
            return
        self.trace = analyze(folder, self.device)
        self.capture = Capture(file=self.trace.file, reason=self.trace.failure, steps=steps)

    def _sample_host(self) -> None:
        if self.events.pid is None:
            self._read()
        if self.events.pid is None:
            self.missing.append(
                "the host profile: the command started no Python interpreter that reads PYTHONPATH (options -I, -E, -S)"
            )
            return
        if not self.events.is_local:
            self.missing.append(f"the host profile: the ranks run on other hosts, the first one on {self.events.node}")
            return
        if not self._observed("the host profile"):
            return
        pid = self.events.pid
        samples = self._run / "host" / "script"
        profiler = HostProfiler(pid, samples, device=self.device, budget=BUDGET, rate_hz=RATE_HZ)
        with profiler:
            self._wait(lambda: False, max(self._seconds, SAMPLED_S))
        self.host = profiler.result()
        if self.host.step_thread is None:
            self.missing += [f"the host profile: {reason}" for reason in self.host.missing]
        stacks, folder = profiler.stacks()["all"], Path(self.events.roots[0])
        self.lines, missing = sampled_lines(stacks, pid, samples, RATE_HZ, self.events.is_own, folder)
        self.missing += missing

    def _take_input_away(self) -> None:
        what, everyone = "the experiment on the input", self._all_events()
        if not self._experiments:
            self.missing.append(f"{what}: not requested (--no-experiments)")
            return
        if any(events.loader is None for events in everyone):
            self.missing.append(f"{what}: no loader was observed in the script's Python code")
            return
        if not any(step.wait_s for step in self.untouched):
            self.missing.append(f"{what}: no timed step received a batch from the loader")
            return
        if not self._observed(what):
            return
        wait_s = sum(step.wait_s for step in self.untouched) / len(self.untouched)
        steps, most = self._prefetched_steps(wait_s)
        repetitions: list[list[float]] = []
        for repetition in range(1, most + 1):
            if reason := self._prefetch(repetition, steps):
                if repetition == 1:
                    self.missing.append(f"{what}: {reason}")
                break
            # A rank waits for ranks that still fetch batches, so only steps that are prefetched in all ranks count.
            found = [{at for at, step in enumerate(events.steps) if step.kind == "prefetched"} for events in everyone]
            seconds = [self.events.steps[at].seconds for at in sorted(set.intersection(*found))]
            repetitions.append(seconds[sum(map(len, repetitions)) :])
        if any(repetitions):
            self.experiments["input"] = Experiment(repetitions, self._steps_after())

    def _prefetch(self, repetition: int, steps: int) -> str | None:
        """Repeat the experiment on the input; return the reason if it does not take place."""
        everyone = self._all_events()
        most_bytes = int(MEMORY_SHARE * psutil.virtual_memory().available / len(everyone))
        command = ("prefetch", str(steps), str(most_bytes))
        if reason := self._all_ranks(steps, lambda events: len(events.experiments) == repetition, *command):
            return reason
        outcomes = [events.experiments[-1] for events in everyone]
        self.same_random_numbers &= all(same for _, same, _ in outcomes)
        return next((refused for _, _, refused in outcomes if refused), None)

    def _prefetched_steps(self, wait_s: float) -> tuple[int, int]:
        """Return the number of steps of one repetition of the experiment, and the number of repetitions.

        Both are limited by the pauses, in which a batch takes `wait_s` seconds.
        """
        step_s, fetch_s = max(1e-4, self._step_s() - wait_s), max(1e-4, wait_s)
        affordable = PAUSE_S / REPETITIONS / fetch_s
        steps = ceil(max(FEWEST_PREFETCHED, min(MOST_PREFETCHED, EXPERIMENT_S / step_s, affordable)))
        is_repeated = steps * step_s < EXPERIMENT_S / 2 and REPETITIONS * steps * fetch_s <= 2 * PAUSE_S
        return steps, REPETITIONS if is_repeated else 1

    def _take_exchange_away(self) -> None:
        what = "the experiment on the exchange"
        if not self.others or not self._experiments or not self._observed(what):
            return
        everyone = self._all_events()
        steps = max(FEWEST_PREFETCHED, min(MOST_PREFETCHED, ceil(EXPERIMENT_S / self._step_s())))
        if reason := self._all_ranks(steps, lambda events: events.unexchanged, "exchange", str(steps)):
            self.missing.append(f"{what}: {reason}")
            return
        if refused := next((events.exchange_refused for events in everyone if events.exchange_refused), None):
            self.missing.append(f"{what}: {refused}")
            return
        found = [[step.seconds for step in events.steps if step.kind == "unexchanged"] for events in everyone]
        self.experiments["communication"] = Experiment([max(found, key=sum)], self._steps_after())

    def _take_host_away(self) -> None:
        what, verdict = "the experiment on the host", self.bottleneck(self.device, self._step_s())
        if not self._experiments or "dispatch-bound" not in (verdict.bound, *verdict.beside):
            return
        if self.others:
            self.missing.append(f"{what}: not with several ranks")
            return
        if self.events.source in ("optimizer steps", "gradients"):
            self.missing.append(f"{what}: only for functions compiled by JAX or TensorFlow")
            return
        if not self._observed(what):
            return
        self.events.send("launches")
        if not self._wait(lambda: self.events.launches is not None, COMPILE_S + 5 * self._step_s()):
            self.missing.append(f"{what}: {self._why_ended()}")
            return
        assert self.events.launches is not None
        seconds, refused = self.events.launches
        if refused:
            self.missing.append(f"{what}: {refused}")
            return
        self.experiments["dispatch"] = Experiment([seconds], self._steps_after())

    def bottleneck(self, device: str, step_s: float | None) -> Bottleneck:
        """Return the bottleneck of steps of this time on a device of this kind, by trace or host profile."""
        no_trace = next((text for text in self.missing if text.startswith("the trace")), "no trace")
        waiting = sum(step.wait_s for step in self.untouched) / max(1e-9, sum(step.seconds for step in self.untouched))
        return bottleneck(Point("script", device, {}), self.trace, self.host, self.cpu, no_trace, step_s, waiting)

    def _all_ranks(self, steps: int, done: Callable[[ScriptEvents], bool], *command: str) -> str | None:
        """Send a command for this number of steps to all ranks; return the reason if one of them fails."""
        everyone = self._all_events()
        for events in everyone:
            events.send(*command)
        limit_s = REPLY_S + 5 * steps * self._step_s()
        ended = self._wait(lambda: all(done(events) or events.error for events in everyone), limit_s)
        return None if ended and all(map(done, everyone)) else self._why_ended()

    def _observed(self, what: str) -> bool:
        """Return whether the script can still be observed; otherwise, note the reason."""
        if self.running() and not self.events.error:
            return True
        self.missing.append(f"{what}: {self._why_ended()}")
        return False

    def _why_ended(self) -> str:
        if error := next((events.error for events in self._all_events() if events.error), None):
            return f"the observation ended with an error: {error}"
        return "the script took no further step" if self.running() else "the script ended before"
