"""Soak of one node: a process for each logical CPU and GPU, sensors over time, and the answer.

All processes prepare first, and their loads begin together. This process only waits for their messages.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from time import monotonic, perf_counter
from typing import Any

from pydantic import ValidationError

from accelbench.errors import UserError
from accelbench.execution.affinity import granted
from accelbench.execution.process_group import ProcessGroup
from accelbench.execution.runner import signals_as_ctrl_c
from accelbench.execution.store import now
from accelbench.execution.worker_process import describe_exit
from accelbench.gate.hardware import HardwareClass
from accelbench.history.fingerprint import hardware_text
from accelbench.output.format import counted, seconds
from accelbench.profiling.child import child_command, child_environment
from accelbench.profiling.devices import DeviceMissing, device_kind
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.machine.free_memory import SHARE, available_bytes
from accelbench.profiling.machine.placement import on_cpus
from accelbench.profiling.ranks.channel import Channel, Message
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.stored import first_fault
from accelbench.profiling.records.telemetry import Telemetry
from accelbench.profiling.telemetry.sampler import TelemetrySampler
from accelbench.profiling.text import format_bytes
from accelbench.session import plan_run
from accelbench.soak.answer import (
    EXIT_STATUS,
    SoakAnswer,
    SoakPoint,
    SoakSeries,
    SoakUnit,
    summary_of,
    verdict_of,
)
from accelbench.soak.cpu_sensors import CpuSensors
from accelbench.soak.messages import PointWindow, UnitJob, UnitReady, UnitWindow, WrongResult

DEVICES: tuple[Device, ...] = ("cpu", "gpu")
SUITE = Path(__file__).with_name("soak.toml")
MOST_WINDOWS, LEAST_WINDOW_S = 240, 1.0
PROCESS_BYTES = 300 << 20
"""Memory of a process of a CPU without its arrays: Python, Numba and compilation take 250 MiB."""
READY_S = 900.0
"""Time limit of the preparation, which compiles all kernels."""
SILENT_WINDOWS, LEAST_SILENT_S = 10, 120.0
"""Time without a message after which a unit counts as hung."""
END_S = 20.0
"""Time for the units to end after the load; then they are killed and count as hung."""
INTERRUPTED_S = 3.0
"""The same after Ctrl-C or SIGTERM, without counting as hung."""


@dataclass(frozen=True)
class SoakSettings:
    """Settings of a soak."""

    seconds: float
    devices: tuple[Device, ...] = DEVICES
    suite: Path = SUITE
    node: str = ""
    inject_error: bool = False
    """Whether one bit of a result of the first unit is flipped, to test the check."""

    @property
    def window_s(self) -> float:
        """Return the interval of the throughput in seconds."""
        return min(self.seconds, max(LEAST_WINDOW_S, self.seconds / MOST_WINDOWS))


@dataclass
class Unit:
    """Process of a logical CPU or GPU, with what it has sent."""

    name: str
    device: Device
    model: str
    process: ProcessGroup
    channel: Channel
    heard: float
    """Time of the last message by `monotonic`."""
    ready: UnitReady | None = None
    windows: list[UnitWindow] = field(default_factory=list)
    wrong: list[WrongResult] = field(default_factory=list)
    problem: str = ""
    ended: bool = False

    def take(self, message: Message) -> WrongResult | None:
        """Store a message; return a wrong result. An invalid message is a problem."""
        self.heard = monotonic()
        try:
            match message:
                case {"ready": content}:
                    self.ready = UnitReady.model_validate(content)
                case {"window": content}:
                    self.windows.append(UnitWindow.model_validate(content))
                case {"wrong": content}:
                    self.wrong.append(WrongResult.model_validate(content))
                    return self.wrong[-1]
                case {"problem": reason}:
                    self.fail(str(reason))
                case {"done": _}:
                    self.ended = True
        except ValidationError as error:
            self.fail(f"invalid message: {first_fault(error)}")
        return None

    def fail(self, reason: str) -> None:
        """End the unit with a problem; later ones have no effect."""
        self.problem = self.problem or reason
        self.ended = True

    @property
    def wrong_passes(self) -> int:
        """Return the number of wrong results."""
        return max([len(self.wrong), *(window.wrong_passes for window in self.windows[-1:])])

    def point_totals(self) -> dict[str, PointWindow]:
        """Return the sums over all windows by point."""
        found = {name: PointWindow(passes=0, work=0.0, seconds=0.0) for name in (self.ready or UnitReady()).points}
        for window in self.windows:
            for name, part in window.points.items():
                so_far = found.get(name) or PointWindow(passes=0, work=0.0, seconds=0.0)
                found[name] = _sum(so_far, part)
        return found


def soak_node(settings: SoakSettings, report: Callable[[str], object] = lambda text: None) -> SoakAnswer:
    """Load all units for the requested time, and return the answer; `report` is called with each event as text.

    Ctrl-C, SIGTERM and SIGHUP end the load; the answer is then about the time so far. Raises UserError if there is no
    device or no point to run.
    """
    started, begin = now(), monotonic()
    environment = collect()
    points = {device: found for device in settings.devices if (found := _points(device, settings))}
    if not points:
        raise UserError(f"nothing to soak: no usable device ({', '.join(settings.devices)}) has a point of the suite")
    units: list[Unit] = []
    with ExitStack() as stack:
        stack.callback(_end_all, units)
        stack.enter_context(signals_as_ctrl_c())
        load_s, interrupted, observed = 0.0, False, LoadObservations()
        try:
            _start(units, points, environment, settings)
            report(f"preparing {counted(len(units), 'unit')}")
            _wait(units, begin + READY_S, lambda unit: unit.ready is not None, "no end of the preparation", report)
            if any(not unit.ended for unit in units):
                with _observed(points, environment, settings, observed):
                    load_s = _load(units, settings, observed, report)
        except KeyboardInterrupt:
            interrupted = True
            load_s = perf_counter() - observed.begin if observed.begin else 0.0
            _interrupt(units)
    return _answer(settings, started, monotonic() - begin, load_s, interrupted, environment, units, observed)


def _points(device: Device, settings: SoakSettings) -> list[Point]:
    """Return the points of the suite for a device; empty if the device is missing and not the only one requested."""
    try:
        device_kind(device).require()
        plan = plan_run(
            (), suite=str(settings.suite), device=device, choices=(), backend=None, ceilings=False, rounds=1
        )
    except DeviceMissing as error:
        if settings.devices == (device,):
            raise UserError(str(error)) from None
        return []
    except UserError:
        if settings.devices == (device,):
            raise
        return []  # the suite has no point for this device
    return plan.points


def _start(
    units: list[Unit], points: Mapping[Device, Sequence[Point]], environment: Environment, settings: SoakSettings
) -> None:
    """Start the processes of all units; those of CPUs are pinned, those of GPUs see one GPU."""
    cpus = cpus_under_load(environment)
    if "cpu" in points:
        require_process_memory(len(cpus))
    for device, of_device in points.items():
        cards = environment.gpus if device == "gpu" else []
        for place in range(len(cpus) if device == "cpu" else len(cards)):
            number = cpus[place] if device == "cpu" else place
            name = f"{device.upper()} {number}"
            model = environment.cpu.model or "unknown CPU" if device == "cpu" else cards[place].name
            flip = int.from_bytes(os.urandom(4)) if settings.inject_error and not units else None
            count = len(cpus) if device == "cpu" else 1
            job = UnitJob(points=list(of_device), processes=count, window_s=settings.window_s, flip=flip)
            if device == "cpu":
                one = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
                with _pinned(number, environment):
                    units.append(_process(name, device, model, job, one))
            else:
                visible = device_kind(device).settings_of_rank(place, len(cards))
                units.append(_process(name, device, model, job, visible))


def cpus_under_load(environment: Environment) -> list[int]:
    """Return the logical CPUs that get a process: those of the affinity, as many as the CPU quota grants."""
    cpus = environment.cpu.affinity or list(range(environment.cpu.usable))
    return sorted(cpus)[: granted(len(cpus), environment.limits.cpu_quota)]


def require_process_memory(processes: int) -> None:
    """Raise UserError if the processes would take more than half of the available memory, without their arrays."""
    needed, available = processes * PROCESS_BYTES, available_bytes()
    if needed > SHARE * available:
        raise UserError(
            f"{processes:,} processes need {format_bytes(needed)} of memory, more than half of the available "
            f"{format_bytes(available)}: load fewer CPUs, as with taskset -c 0-7"
        )


@contextmanager
def _pinned(cpu: int, environment: Environment) -> Iterator[None]:
    if environment.cpu.affinity is None:
        yield
    else:
        with on_cpus([cpu]):
            yield


def _process(name: str, device: Device, model: str, job: UnitJob, variables: Mapping[str, str]) -> Unit:
    own_end, its_end = socket.socketpair()
    with its_end:
        process = subprocess.Popen(
            child_command("accelbench.soak.unit_process", str(its_end.fileno())),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[its_end.fileno()],
            start_new_session=True,  # Ctrl-C reaches only this process
            env=child_environment(**variables),
        )
    channel = Channel(own_end)
    channel.send(unit=name, job=job.model_dump(mode="json"))
    return Unit(name, device, model, ProcessGroup(process), channel, monotonic())


def _load(
    units: Sequence[Unit], settings: SoakSettings, observed: LoadObservations, report: Callable[[str], object]
) -> float:
    """Run the load and return its duration in seconds."""
    loaded = [unit for unit in units if not unit.ended]
    for unit in loaded:
        unit.heard = monotonic()
        unit.channel.send(begin=settings.seconds)
    begin = monotonic()
    report(f"load on {counted(len(loaded), 'unit')} for {seconds(settings.seconds)}")
    silent_s = max(LEAST_SILENT_S, SILENT_WINDOWS * settings.window_s)
    due = 0.0

    def read_sensors() -> None:
        nonlocal due
        if monotonic() >= due:
            observed.read_cpu()
            due = monotonic() + settings.window_s

    _wait(
        loaded,
        begin + settings.seconds + max(END_S, settings.window_s),
        lambda unit: unit.ended,
        f"hung: no result for {silent_s:.0f} s",
        report,
        silent_s,
        read_sensors,
    )
    return min(settings.seconds, monotonic() - begin)


def _wait(
    units: Sequence[Unit],
    deadline: float,
    is_over: Callable[[Unit], bool],
    problem: str,
    report: Callable[[str], object],
    silent_s: float | None = None,
    between: Callable[[], object] = lambda: None,
) -> None:
    """Take messages until all units have ended or `is_over`; a unit that is silent or late gets the problem."""
    with DefaultSelector() as selector:
        for unit in units:
            selector.register(unit.channel, EVENT_READ, unit)
        while waiting := [unit for unit in units if not unit.ended and not is_over(unit)]:
            for key, _ in selector.select(0.2):
                unit = key.data
                for message in unit.channel.read():
                    if wrong := unit.take(message):
                        report(f"wrong result: {wrong.sentence}")
                if not unit.channel.open:
                    selector.unregister(unit.channel)
                    if not unit.ended:
                        unit.fail(_exit_reason(unit))
                if unit.problem:
                    report(f"{unit.name}: {unit.problem}")
            between()
            late = monotonic() > deadline
            for unit in waiting:
                if not unit.ended and (late or (silent_s and monotonic() - unit.heard > silent_s)):
                    unit.fail(problem)
                    report(f"{unit.name}: {problem}")


def _exit_reason(unit: Unit) -> str:
    if unit.channel.fault:
        return unit.channel.fault
    return describe_exit(unit.process.end()) if unit.process.has_ended(1.0) else "the process closed its channel"


def _interrupt(units: Sequence[Unit]) -> None:
    """Ask the units for their last window, and take what arrives in a short time."""
    for unit in units:
        unit.channel.send(end=True)
    running = [unit for unit in units if not unit.ended and unit.ready]
    with suppress(KeyboardInterrupt):
        deadline = monotonic() + INTERRUPTED_S
        for unit in running:
            while not unit.ended and (message := unit.channel.receive(max(0.0, deadline - monotonic()))):
                unit.take(message)


def _end_all(units: Sequence[Unit]) -> None:
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave processes
    for unit in units:
        unit.process.end()
        unit.channel.close()
    signal.signal(signal.SIGINT, previous)


@dataclass
class LoadObservations:
    """Sensors and counters over the load."""

    begin: float = 0.0
    """Start of the load by `perf_counter`; 0 before it."""
    cpu: CpuSensors | None = None
    cpu_readings: list[tuple[float, str, float, str]] = field(default_factory=list)
    """Time, name, value and unit of each reading of the CPUs' sensors."""
    telemetry: dict[Device, Telemetry] = field(default_factory=dict)
    series: dict[Device, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)

    def read_cpu(self) -> None:
        """Read the sensors of the CPUs once."""
        assert self.cpu is not None
        when = perf_counter() - self.begin
        self.cpu_readings += [(when, *reading) for reading in self.cpu.read()]

    def all_series(self) -> list[SoakSeries]:
        """Return the series of all sensors."""
        found: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
        for when, name, value, unit in self.cpu_readings:
            found["CPU", name, unit].append((when, value))
        for device, of_device in self.series.items():
            for name, values in of_device.items():
                if device != "cpu" and not name.startswith(device):
                    continue  # sensors of the host are those of the CPU
                gauge = self.telemetry[device].gauges.get(name)
                if name != "process.rss":
                    found[device.upper(), name, gauge.unit if gauge else "%"] += values
        return [
            SoakSeries(
                kind="sensor",
                device=device,
                name=name,
                unit=unit,
                times=[max(0.0, when) for when, _ in values],
                values=[value for _, value in values],
            )
            for (device, name, unit), values in sorted(found.items())
        ]

    @property
    def missing(self) -> list[str]:
        """Return the reasons for missing sensors."""
        known = self.cpu.missing if self.cpu else []
        return [*known, *(reason for of in self.telemetry.values() for reason in of.missing)]


@contextmanager
def _observed(
    points: Mapping[Device, Sequence[Point]],
    environment: Environment,
    settings: SoakSettings,
    observed: LoadObservations,
) -> Iterator[None]:
    """Sample the sensors during the block, also if it is interrupted."""
    samplers = {
        device: TelemetrySampler(
            device,
            interval_s=max(device_kind(device).sensor_interval_s, settings.window_s / 2),
            cards=range(len(environment.gpus)) if device == "gpu" else (0,),
        )
        for device in points
    }
    observed.cpu = CpuSensors()
    entered = []
    try:
        for device, sampler in samplers.items():
            sampler.__enter__()
            entered.append(device)
        observed.begin = perf_counter()
        yield
    finally:
        for device, sampler in samplers.items():
            if device in entered:
                sampler.__exit__(None, None, None)
                observed.telemetry[device] = sampler.result()
                observed.series[device] = sampler.series(observed.begin)
            sampler.close()


def _answer(
    settings: SoakSettings,
    started: Any,
    wall_s: float,
    load_s: float,
    interrupted: bool,
    environment: Environment,
    units: Sequence[Unit],
    observed: LoadObservations,
) -> SoakAnswer:
    found = [_unit_answer(unit) for unit in units]
    wrong = sorted((each for unit in units for each in unit.wrong), key=lambda each: each.at_s)
    verdict = verdict_of(found)
    counters: dict[str, float] = {}
    for telemetry in observed.telemetry.values():
        counters |= {name: value for name, value in telemetry.counters.items() if not name.startswith("process.")}
    return SoakAnswer(
        id=f"{started:%Y%m%d-%H%M%S}-{os.urandom(4).hex()}",
        node=settings.node,
        verdict=verdict,
        exit_status=EXIT_STATUS[verdict],  # type: ignore[arg-type]  # 0, 1 or 2
        summary=summary_of(found, wrong, load_s, settings.seconds if interrupted else None),
        started=started,
        planned_s=settings.seconds,
        load_s=load_s,
        wall_s=wall_s,
        interrupted=interrupted,
        hardware=HardwareClass.of_environment(environment, hardware_text(environment)),
        units=found,
        wrong=wrong,
        series=[*throughput(units, settings.window_s), *observed.all_series()],
        counters=counters,
        throttle_reasons=sorted({reason for of in observed.telemetry.values() for reason in of.throttle_reasons}),
        missing=observed.missing,
    )


def _unit_answer(unit: Unit) -> SoakUnit:
    totals, ready = unit.point_totals(), unit.ready or UnitReady()
    return SoakUnit(
        name=unit.name,
        model=unit.model,
        passes=sum(total.passes for total in totals.values()),
        wrong_passes=unit.wrong_passes,
        points=[
            SoakPoint(
                point=name,
                passes=total.passes,
                rate=total.work / total.seconds if total.seconds else None,
                unit=ready.points[name],
            )
            for name, total in totals.items()
        ],
        skipped=ready.skipped,
        problem=unit.problem,
    )


def throughput(units: Sequence[Unit], window_s: float) -> list[SoakSeries]:
    """Return the throughput of each point over time: of all CPUs together, and of each GPU."""
    rates: dict[tuple[str, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    names: dict[str, str] = {}
    for unit in units:
        names |= unit.ready.points if unit.ready else {}
        device = "CPU" if unit.device == "cpu" else unit.name
        for window in unit.windows:
            for name, part in window.points.items():
                if part.seconds > 0:
                    rates[device, name][window.number] += part.work / part.seconds
    return [
        SoakSeries(
            kind="throughput",
            device=device,
            name=name,
            unit=names[name],
            times=[(number + 0.5) * window_s for number in sorted(found)],
            values=[found[number] for number in sorted(found)],
        )
        for (device, name), found in sorted(rates.items())
    ]


def _sum(a: PointWindow, b: PointWindow) -> PointWindow:
    return PointWindow(passes=a.passes + b.passes, work=a.work + b.work, seconds=a.seconds + b.seconds)
