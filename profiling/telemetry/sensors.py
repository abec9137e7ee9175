"""Sensor process: samples the machine's sensors during a measurement.

It is a separate process because NVBench holds the GIL during the whole measurement, so a thread of the measured process
could not sample.

`python -m accelbench.profiling.telemetry.sensors FD REQUEST` (a `SensorRequest` in JSON) communicates through a
`Channel` at that file descriptor: it sends `ready` when it can begin, `begun` after the command `begin`, and
`readings`, a `SensorReadings`, after the command `end`. It exits when the channel is closed or the parent has died.
Imports are kept minimal, so that it is ready after 0.1 s.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

import psutil

from accelbench.profiling.machine.cpu_times import load_between, read_cpu_times
from accelbench.profiling.ranks.channel import Channel

if TYPE_CHECKING:
    from accelbench.profiling.devices import CardSensors
    from accelbench.profiling.records.telemetry import Reading

FIRST_S = 0.1  # time of the first sample: clocks have left their idle state, and short measurements have a sample
TICK_S = 0.01  # /proc/stat counts in ticks of 1/100 s on nearly every kernel
MIN_LOAD_TICKS = 10  # fewer ticks give a rounding error of more than 10 %
# A later sample, with less CPU time of the measured process in between, shows that both processes were stopped.
GAP_S, GAP_CPU_SHARE = 1.0, 0.05
MOST_W = 10_000.0  # no card has this power: a counter that rises faster is broken
ORPHAN_S = 1.0  # seconds between checks for the parent: the channel may stay open after its death


@dataclass(frozen=True)
class SensorRequest:
    """The measured process and the sensors to sample."""

    pid: int
    """The PID of the measured process, which is the parent."""
    interval_s: float
    """Seconds between two samples."""
    cpus: list[int] | None = None
    """CPUs with recorded load; None for all."""
    device: str = "cpu"
    """Kind of the measured device."""
    cards: list[str] = field(default_factory=list)
    """Addresses of the device's cards with sensors."""
    place: list[int] | None = None
    """CPUs of the sensor process; None for no change."""


@dataclass
class SensorReadings:
    """The sensor readings between `begin` and `end`."""

    when: list[float] = field(default_factory=list)
    """Time of each sample by `perf_counter`, which is common to all processes of a machine."""
    samples: list[list[Reading]] = field(default_factory=list)
    throttled: list[list[str]] = field(default_factory=list)
    """Throttle reasons of all cards, for each sample."""
    stopped_s: float = 0.0
    """Seconds in which the measured process was stopped, by a signal or together with the machine."""
    energy_j: float | None = None
    """Energy of all cards in joules; None if a card has no energy counter."""
    missing: list[str] = field(default_factory=list)
    """Unreadable sensors, with the reasons."""


def main() -> None:
    """Sample until the command `end`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the measured process handles Ctrl-C and ends this process
    channel, request = Channel(socket.socket(fileno=int(sys.argv[1]))), SensorRequest(**json.loads(sys.argv[2]))
    _move(request.place)
    sensors = Sensors(request)
    channel.send(ready=True)
    if _command(channel, request, None) != "begin":
        return
    sensors.begin()
    channel.send(begun=True)
    due = perf_counter() + min(FIRST_S, request.interval_s)
    while (command := _command(channel, request, due)) is None:
        sensors.sample()
        due = max(due + request.interval_s, perf_counter())
    if command == "end":
        channel.send(readings=vars(sensors.end()))


def _move(place: Sequence[int] | None) -> None:
    """Set the CPU affinity; a failure, as of a control group without these CPUs, is ignored."""
    if place and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, place)


def _command(channel: Channel, request: SensorRequest, due: float | None) -> str | None:
    """Return the next command; None at the time `due`; an empty string if the channel is closed or the parent dead."""
    while channel.open and os.getppid() == request.pid:
        left = ORPHAN_S if due is None else min(ORPHAN_S, due - perf_counter())
        if message := channel.receive(max(0.0, left)):
            return str(message["command"])
        if due is not None and perf_counter() >= due:
            return None
    return ""


class Sensors:
    """The open sensors."""

    def __init__(self, request: SensorRequest) -> None:
        self._process = psutil.Process(request.pid)
        self._loads = CpuLoads(request.cpus)
        self._readings = SensorReadings()
        self._interval_s, self._count = request.interval_s, len(request.cards)
        self._cards = _open_cards(request, self._readings.missing) if request.cards else None

    def begin(self) -> None:
        self._begin_energy_j, self._begin_s = self._cards.energy() if self._cards else None, perf_counter()
        self._loads.read()
        self._sampled, self._ran = perf_counter(), sum(self._process.cpu_times()[:2])

    def sample(self) -> None:
        now, process = perf_counter(), self._process
        with process.oneshot():
            ran, is_stopped = sum(process.cpu_times()[:2]), process.status() == psutil.STATUS_STOPPED
        passed = now - self._sampled
        # A gap in which the process had no CPU time either is one of both processes.
        if is_stopped or (passed > self._interval_s + GAP_S and ran - self._ran < GAP_CPU_SHARE * passed):
            self._readings.stopped_s += passed
        self._sampled, self._ran = now, ran
        self._readings.when.append(now)
        readings: list[Reading] = [("process.rss", float(self._process.memory_info().rss), "B"), *self._loads.read()]
        self._readings.samples.append(readings + (self._cards.read() if self._cards else []))
        self._readings.throttled.append(self._cards.throttle_reasons() if self._cards else [])

    def end(self) -> SensorReadings:
        energy_j = self._cards.energy() if self._cards else None
        if energy_j is not None and self._begin_energy_j is not None:
            used, seconds = energy_j - self._begin_energy_j, perf_counter() - self._begin_s
            if 0 < used <= MOST_W * self._count * max(seconds, 1.0):
                self._readings.energy_j = used
            elif used or seconds > 1.0:  # it is updated several times per second
                self._readings.missing.append(f"the GPUs' energy: the counter changed by {used:g} J in {seconds:.3g} s")
        if not self._readings.samples:
            self.sample()
        return self._readings


def _open_cards(request: SensorRequest, missing: list[str]) -> CardSensors | None:
    from accelbench.profiling.devices import device_kind  # slow; not needed without cards

    return device_kind(request.device).open_sensors(request.cards, missing)


class CpuLoads:
    """Load of each of the given CPUs (None: all) since the last reading."""

    def __init__(self, cpus: Sequence[int] | None = None) -> None:
        self._cpus = cpus
        self._previous, self._when = read_cpu_times(), perf_counter()

    def read(self) -> list[Reading]:
        """Return one percentage per CPU that was online at both readings; empty if the interval is too short."""
        now = perf_counter()
        if now - self._when < MIN_LOAD_TICKS * TICK_S:
            return []
        previous, self._previous, self._when = self._previous, read_cpu_times(), now
        found: list[Reading] = []
        for number, times in self._previous.items():
            if number is not None and number in previous and (self._cpus is None or number in self._cpus):
                load = load_between(previous[number], times)
                found += [] if load is None else [(f"cpu.load.{number}", 100 * load, "%")]
        return found


if __name__ == "__main__":
    main()
