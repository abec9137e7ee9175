"""The machine's state around one measurement: sensors sampled by a thread, totals read at both ends."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import ceil
from statistics import mean, median
from time import perf_counter
from types import TracebackType
from typing import Any

import psutil
import pynvml

from profiling.benchmark import Device
from profiling.counters import Totals, busy_percent, difference, read_totals
from profiling.environment.cpu import collect_affinity
from profiling.libcuda import CudaError, Driver, NoDriver
from profiling.nvml import open_card, read
from profiling.record import Gauge, Telemetry

INTERVAL_S = 0.5  # a sensor is worth no more: NVML itself refreshes power and utilisation some ten times a second
FIRST_S = 0.1  # so that a short measurement has a sample too, taken when the clocks have left their idle state
TICK_S = 0.01  # /proc/stat counts in ticks of 1/100 s on nearly every kernel
MOST_POINTS = 500  # of a sensor over time: more than a chart is wide
MIN_LOAD_TICKS = 10  # a load from fewer ticks would be wrong by more than a tenth

BUSY = ("user", "nice", "system", "irq", "softirq")

Reading = tuple[str, float, str]
"""Name, value, unit."""

# What holds a card's clock below what it could be (NVML, nvmlClocksThrottleReasons); an idle card is not held back.
THROTTLE_REASONS = {
    pynvml.nvmlClocksThrottleReasonSwPowerCap: "power limit",
    pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting: "clocks set by the user",
    pynvml.nvmlClocksThrottleReasonSwThermalSlowdown: "temperature (software)",
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "temperature (hardware)",
    pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "external power brake",
    pynvml.nvmlClocksThrottleReasonHwSlowdown: "hardware slowdown",
    pynvml.nvmlClocksThrottleReasonSyncBoost: "clocks tied to another card",
    pynvml.nvmlClocksThrottleReasonDisplayClockSetting: "display clock",
}


class TelemetrySampler:
    """Observes the machine while its `with` block runs; `result()` afterwards.

    Gauges of a GPU are those of the first visible card, where the kernels run. Any sensor may be absent. `cpus` are the
    CPUs that the process was kept to, if it was: what happened on the others did not disturb it.
    """

    def __init__(self, device: Device, interval_s: float = INTERVAL_S, cpus: Sequence[int] | None = None) -> None:
        self._interval_s, self._cpus = interval_s, cpus
        self._card = find_card() if device == "gpu" else None
        self._loads = CpuLoads(cpus)
        self._process = psutil.Process()
        self._readings: list[list[Reading]] = []
        self._when: list[float] = []
        self._throttled: dict[str, int] = defaultdict(int)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, name="telemetry", daemon=True)

    def __enter__(self) -> TelemetrySampler:
        self._thread.start()
        self._begin, self._begin_energy = self._totals(), read_energy(self._card)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_energy, self._end = read_energy(self._card), self._totals()
        self._stop.set()
        self._thread.join()
        if not self._readings:
            self._sample()

    def result(self) -> Telemetry:
        """What was observed; to be asked for after the block."""
        elapsed = self._end.wall_s - self._begin.wall_s
        counters = {"wall_s": elapsed} | difference(self._begin, self._end)
        if self._begin_energy is not None and self._end_energy is not None:
            counters["gpu.energy_j"] = self._end_energy - self._begin_energy
        for reason, samples in self._throttled.items():
            counters[f"gpu.throttled_s.{reason}"] = elapsed * samples / len(self._readings)
        return Telemetry(
            interval_s=self._interval_s,
            gauges=summarize(self._readings),
            counters=counters,
            throttle_reasons=sorted(self._throttled),
        )

    def series(self, since: float) -> dict[str, list[tuple[float, float]]]:
        """Each sensor over time: seconds after `since`, a moment of `perf_counter`, and value; after the block.

        The loads of the CPUs are their mean. Of more than `MOST_POINTS` readings every n-th is taken: none is averaged.
        """
        found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        every = ceil(len(self._readings) / MOST_POINTS)
        for when, readings in list(zip(self._when, self._readings, strict=True))[::every]:
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

    def _sample_until_stopped(self) -> None:
        wait = min(FIRST_S, self._interval_s)
        while not self._stop.wait(wait):
            self._sample()
            wait = self._interval_s

    def _sample(self) -> None:
        readings = [("process.rss", float(self._process.memory_info().rss), "B"), *self._loads.read()]
        if self._card is not None:
            readings += read_card(self._card)
            for reason in read_throttle_reasons(self._card):
                self._throttled[reason] += 1
        self._readings.append(readings)
        self._when.append(perf_counter())


def read_cpu_time(cpus: Sequence[int]) -> dict[str, float]:
    """Seconds that these CPUs together were busy, and that a hypervisor gave to another guest."""
    times = [each for number, each in enumerate(psutil.cpu_times(percpu=True)) if number in cpus]
    busy = sum(getattr(each, name, 0.0) for each in times for name in BUSY)
    steal = [each.steal for each in times if hasattr(each, "steal")]
    return {"cpu.busy_s": busy, **({"cpu.steal_s": sum(steal)} if steal else {})}


class CpuLoads:
    """The load of each of these CPUs since the last reading; by default of all that this process may use."""

    def __init__(self, cpus: Sequence[int] | None = None) -> None:
        self._affinity = collect_affinity() if cpus is None else cpus
        self._previous, self._when = psutil.cpu_times(percpu=True), perf_counter()

    def read(self) -> list[Reading]:
        """One percentage per CPU; none if too little time has passed to tell."""
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
            if self._affinity is None or number in self._affinity
        ]


def find_card() -> Any | None:
    """The management handle of the first GPU that CUDA shows, or None."""
    try:
        devices = Driver().devices()
    except (NoDriver, CudaError):
        return None
    return open_card(devices[0].pci_bus_id) if devices else None


def read_card(card: Any) -> list[Reading]:
    """The card's sensors, without those that it or its driver does not offer."""
    return list(_readings_of(card))


def _readings_of(card: Any) -> Iterator[Reading]:
    sensors: tuple[tuple[str, str, Callable[[], Any]], ...] = (
        ("gpu.sm_clock", "MHz", lambda: read(pynvml.nvmlDeviceGetClockInfo, card, pynvml.NVML_CLOCK_SM)),
        ("gpu.memory_clock", "MHz", lambda: read(pynvml.nvmlDeviceGetClockInfo, card, pynvml.NVML_CLOCK_MEM)),
        ("gpu.power", "W", lambda: read(_watts, card)),
        ("gpu.temperature", "°C", lambda: read(pynvml.nvmlDeviceGetTemperature, card, pynvml.NVML_TEMPERATURE_GPU)),
        ("gpu.utilization", "%", lambda: read(_busy, card)),
        ("gpu.processes", "", lambda: read(_processes, card)),
    )
    for name, unit, sensor in sensors:
        value = sensor()
        if value is not None:
            yield name, float(value), unit


def _watts(card: Any) -> float:
    milliwatts: int = pynvml.nvmlDeviceGetPowerUsage(card)
    return milliwatts / 1000


def _busy(card: Any) -> int:
    """Percent of the last fraction of a second in which a kernel ran."""
    percent: int = pynvml.nvmlDeviceGetUtilizationRates(card).gpu
    return percent


def _processes(card: Any) -> int:
    """Processes that hold a CUDA context on the card; a container may be shown its own only."""
    return len(pynvml.nvmlDeviceGetComputeRunningProcesses(card))


def read_energy(card: Any | None) -> float | None:
    """The card's energy counter in joules (Volta and newer)."""
    millijoules = None if card is None else read(pynvml.nvmlDeviceGetTotalEnergyConsumption, card)
    return None if millijoules is None else millijoules / 1000


def read_throttle_reasons(card: Any) -> list[str]:
    """What holds the card's clock down at this moment."""
    mask = read(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, card) or 0
    return [reason for bit, reason in THROTTLE_REASONS.items() if mask & bit]


def summarize(samples: list[list[Reading]]) -> dict[str, Gauge]:
    """Smallest, median and largest value of each sensor."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for sample in samples:
        for name, value, unit in sample:
            values[name, unit].append(value)
    return {
        name: Gauge(minimum=min(read), median=median(read), maximum=max(read), unit=unit)
        for (name, unit), read in values.items()
    }
