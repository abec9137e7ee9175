"""Sensor process: samples the machine's sensors during a measurement.

It is a process of its own because NVBench holds Python's global interpreter lock during the whole measurement, so that
a thread of the measured process could not sample.

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
from typing import TYPE_CHECKING, Any

import psutil

from accelbench.profiling.ranks.channel import Channel

if TYPE_CHECKING:
    from accelbench.profiling.devices import CardSensors
    from accelbench.profiling.records.telemetry import Reading

FIRST_S = 0.1  # so that a short measurement has a sample too, taken when the clocks have left their idle state
TICK_S = 0.01  # /proc/stat counts in ticks of 1/100 s on nearly every kernel
MIN_LOAD_TICKS = 10  # a load from fewer ticks would be wrong by more than a tenth
ORPHAN_S = 1.0  # seconds between checks for the parent: a child of a dead parent may hold the channel open


@dataclass(frozen=True)
class SensorRequest:
    """The measured process and the sensors to sample."""

    pid: int
    """The PID of the measured process, which is the parent."""
    interval_s: float
    """The seconds between two samples."""
    cpus: list[int] | None = None
    """The CPUs whose load is read; None for all."""
    device: str = "cpu"
    """The kind of the device that is measured."""
    cards: list[str] = field(default_factory=list)
    """The addresses of the device's cards, if it has any with sensors."""
    place: list[int] | None = None
    """The CPUs that this program may run on; None leaves it where it was started."""


@dataclass
class SensorReadings:
    """The sensor readings between `begin` and `end`."""

    when: list[float] = field(default_factory=list)
    """The time of each sample by `perf_counter`, a clock that all processes of a machine share."""
    samples: list[list[Reading]] = field(default_factory=list)
    throttled: list[list[str]] = field(default_factory=list)
    """The reasons that held the clock of any card down, for each sample."""
    energy_j: float | None = None
    """The energy of all cards in joules; None if a card has no energy counter."""
    missing: list[str] = field(default_factory=list)
    """The sensors that could not be read, with the reasons."""


def main() -> None:
    """Sample until the command `end`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the measured process, which ends this one
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
    """Run on these CPUs; a control group may forbid them all, and then the CPUs are not changed."""
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

    def __init__(self, watch: SensorRequest) -> None:
        self._process = psutil.Process(watch.pid)
        self._loads = CpuLoads(watch.cpus)
        self._readings = SensorReadings()
        self._cards = _open_cards(watch, self._readings.missing) if watch.cards else None

    def begin(self) -> None:
        self._begin_energy_j = self._cards.energy() if self._cards else None
        self._loads.read()

    def sample(self) -> None:
        self._readings.when.append(perf_counter())
        readings: list[Reading] = [("process.rss", float(self._process.memory_info().rss), "B"), *self._loads.read()]
        self._readings.samples.append(readings + (self._cards.read() if self._cards else []))
        self._readings.throttled.append(self._cards.throttle_reasons() if self._cards else [])

    def end(self) -> SensorReadings:
        energy_j = self._cards.energy() if self._cards else None
        if energy_j is not None and self._begin_energy_j is not None:
            self._readings.energy_j = energy_j - self._begin_energy_j
        if not self._readings.samples:
            self.sample()
        return self._readings


def _open_cards(watch: SensorRequest, missing: list[str]) -> CardSensors | None:
    from accelbench.profiling.devices import device_kind  # a machine without cards is not kept waiting for it

    return device_kind(watch.device).open_sensors(watch.cards, missing)


class CpuLoads:
    """The load of each of these CPUs since the last reading; None for all of them."""

    def __init__(self, cpus: Sequence[int] | None = None) -> None:
        self._cpus = cpus
        self._previous, self._when = psutil.cpu_times(percpu=True), perf_counter()

    def read(self) -> list[Reading]:
        """Return one percentage per CPU; none if too little time has passed to tell."""
        now = perf_counter()
        if now - self._when < MIN_LOAD_TICKS * TICK_S:
            return []
        previous, self._previous, self._when = self._previous, psutil.cpu_times(percpu=True), now
        if len(previous) != len(self._previous):  # a CPU was switched off or on
            return []
        loads = (busy_percent(before, after) for before, after in zip(previous, self._previous, strict=True))
        return [
            (f"cpu.load.{number}", load, "%")
            for number, load in enumerate(loads)
            if self._cpus is None or number in self._cpus
        ]


def busy_percent(before: Any, after: Any) -> float:
    """Return the percentage of the time between two readings of a CPU's times in which it was not idle."""
    # The time of guests is counted in user and nice already.
    passed = {name: getattr(after, name) - getattr(before, name) for name in after._fields if "guest" not in name}
    total = sum(passed.values())
    idle = passed["idle"] + passed.get("iowait", 0.0)
    return 100.0 * min(1.0, max(0.0, 1 - idle / total)) if total > 0 else 0.0


if __name__ == "__main__":
    main()
