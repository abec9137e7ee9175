"""`TelemetrySampler`: sensors, sampled in a separate process, and counters before and after a measurement."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import ceil
from statistics import mean, median
from types import TracebackType
from typing import Any

from accelbench.profiling import PROJECT
from accelbench.profiling.child import child_environment
from accelbench.profiling.devices import device_kind
from accelbench.profiling.machine.environment.cpu import collect_affinity
from accelbench.profiling.ranks.channel import Channel
from accelbench.profiling.records.point import Device
from accelbench.profiling.records.telemetry import Gauge, Reading, Telemetry
from accelbench.profiling.telemetry.sensors import SensorReadings, SensorRequest
from accelbench.profiling.telemetry.totals import Totals, difference, read_cpu_time, read_totals

MAX_POINTS = 500  # points of a time series, for charts
READY_S = 30.0  # without persistence mode, the driver takes seconds to initialise eight cards
ANSWER_S = 10.0


class TelemetrySampler:
    """Telemetry during a `with` block; call `result()` afterwards.

    The constructor starts the sensor process, so that it is ready when the block starts; `close` ends it if no block
    was entered. Any sensor may be missing. `cards` are the numbers of the visible cards that the measured process uses,
    `cpus` are the CPUs to which it is limited (None: all), and `place` those of the sensor process (None: unchanged).
    """

    def __init__(
        self,
        device: Device,
        interval_s: float | None = None,
        cpus: Sequence[int] | None = None,
        place: Sequence[int] | None = None,
        cards: Sequence[int] = (0,),
    ) -> None:
        kind = device_kind(device)
        self._device, self._interval_s, self._cpus = device, interval_s or kind.sensor_interval_s, cpus
        watched = collect_affinity() if cpus is None else list(cpus)
        visible = kind.cards(max(cards, default=-1) + 1)
        self._readings = SensorReadings()
        self._sensors = SensorProcess(
            SensorRequest(
                os.getpid(),
                self._interval_s,
                watched,
                device,
                [visible[number] for number in cards if number < len(visible)],
                None if place is None else list(place),
            )
        )

    def __enter__(self) -> TelemetrySampler:
        self._sensors.begin()
        self._begin = self._totals()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sensors.send("end")
        self._end = self._totals()
        self._readings = self._sensors.end()

    def close(self) -> None:
        """End the sensor process if it is still running."""
        self._sensors.close()

    def result(self) -> Telemetry:
        """Return the telemetry of the block; call it after the block."""
        elapsed = self._end.wall_s - self._begin.wall_s
        counters = {"wall_s": elapsed} | difference(self._begin, self._end)
        if self._readings.energy_j is not None:
            counters[f"{self._device}.energy_j"] = self._readings.energy_j
        if self._readings.stopped_s:
            counters["process.stopped_s"] = self._readings.stopped_s
        throttled = [reason for reasons in self._readings.throttled for reason in reasons]
        missing = list(self._readings.missing)
        if "cpu.other_s" not in counters:
            missing.append("CPU time of other processes: the kernel counts no CPU time")
        for reason in sorted(set(throttled)):
            share = throttled.count(reason) / len(self._readings.throttled)
            counters[f"{self._device}.throttled_s.{reason}"] = elapsed * share
        return Telemetry(
            interval_s=self._interval_s,
            gauges=summarize(self._readings.samples),
            counters=counters,
            throttle_reasons=sorted(set(throttled)),
            missing=missing,
        )

    def shared_times(self) -> list[tuple[float, float]]:
        """Return the times in which another process used a card, after the block: begin and end by `perf_counter`.

        Each reading counts for the time from the reading before it to the one after it. Where the use by others is
        unknown, the number of processes on the card decides, which may be idle.
        """
        by_others, processes = f"{self._device}.utilization_by_others", f"{self._device}.processes"
        when, found = self._readings.when, list[tuple[float, float]]()
        for place, readings in enumerate(self._readings.samples):
            used = [value > 0 for name, value, _ in readings if name.startswith(by_others)]
            several = [value > 1 for name, value, _ in readings if name.startswith(processes)]
            if any(used or several):
                begin = when[place - 1] if place else self._begin.wall_s
                end = when[place + 1] if place + 1 < len(when) else self._end.wall_s
                found.append((begin, end))
        return found

    def series(self, since: float) -> dict[str, list[tuple[float, float]]]:
        """Return the time series of each sensor, after the block: seconds since `since` (a `perf_counter` time), value.

        CPU loads are averaged over the CPUs. Of more than `MAX_POINTS` readings, every n-th is returned.
        """
        found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        every = ceil(len(self._readings.samples) / MAX_POINTS) or 1
        for when, readings in list(zip(self._readings.when, self._readings.samples, strict=True))[::every]:
            values = {name: value for name, value, _ in readings}
            loads = [values.pop(name) for name in list(values) if name.startswith("cpu.load.")]
            for name, value in [*values.items(), *([("cpu.load", mean(loads))] if loads else [])]:
                found[name].append((when - since, value))
        return dict(found)

    def _totals(self) -> Totals:
        totals = read_totals()
        if self._cpus is None:
            return totals
        return replace(totals, counters={**totals.counters, **read_cpu_time(self._cpus)})


class SensorProcess:
    """Client of the sensor process (`accelbench.profiling.telemetry.sensors`).

    If that process fails, its readings are lost, but not the measurement.
    """

    def __init__(self, request: SensorRequest) -> None:
        path = [entry for entry in sys.path if entry] + [str(PROJECT)]
        own_end, child_end = socket.socketpair()
        self._channel = Channel(own_end)
        self._failure: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # Without `site`, and with this process's path, the child starts in half the time.
        command = [sys.executable, "-S", "-P", "-m", "accelbench.profiling.telemetry.sensors"]
        with child_end:
            try:
                self._process = subprocess.Popen(
                    [*command, str(child_end.fileno()), json.dumps(asdict(request))],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    pass_fds=[child_end.fileno()],
                    env=child_environment(PYTHONPATH=os.pathsep.join(path)),
                )
            except OSError as error:  # out of processes or memory
                self._failure = f"the sensor process cannot be started: {error}"

    def begin(self) -> None:
        """Wait until the process is ready, then start sampling."""
        self._answer("ready", READY_S)
        self.send("begin")
        self._answer("begun", ANSWER_S)

    def send(self, command: str) -> None:
        """Send a command."""
        if self._failure is None and not self._channel.send(command=command):
            self._failure = self._exit_reason()

    def end(self) -> SensorReadings:
        """Return the readings, after the command `end`."""
        readings = self._answer("readings", ANSWER_S)
        self.close()
        if readings is None:
            return SensorReadings(missing=[f"all sensors: {self._failure}"])
        return SensorReadings(**readings)

    def close(self) -> None:
        """Kill the process."""
        self._channel.close()
        if self._process is not None and self._process.stderr is not None:
            self._process.kill()
            self._process.wait()
            self._process.stderr.close()

    def _answer(self, name: str, seconds: float) -> Any:
        """Return the content of the next message with this name; None after a timeout or an earlier failure."""
        if self._failure is not None:
            return None
        found = self._channel.answer(name, seconds)
        if found is None:
            timed_out = f"the sensor process did not respond within {seconds:g} s"
            self._failure = timed_out if self._channel.open else self._exit_reason()
        return found

    def _exit_reason(self) -> str:
        """Return the last line of the ended process's stderr, or its exit status."""
        assert self._process is not None
        try:
            _, stderr = self._process.communicate(timeout=ANSWER_S)
        except subprocess.TimeoutExpired:
            return "the sensor process closed its channel"
        lines = stderr.decode(errors="replace").strip().splitlines() or [f"exit status {self._process.returncode}"]
        return f"the sensor process ended: {lines[-1]}"


def summarize(samples: Sequence[Sequence[Reading]]) -> dict[str, Gauge]:
    """Return minimum, median and maximum of each sensor."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for sample in samples:
        for name, value, unit in sample:
            values[name, unit].append(value)
    return {
        name: Gauge(minimum=min(read), median=median(read), maximum=max(read), unit=unit)
        for (name, unit), read in values.items()
    }
