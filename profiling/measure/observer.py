"""Observer of the machine during a measurement: telemetry, noise, CPU placement, and the peak of the point."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from accelbench.profiling.devices import device_kind
from accelbench.profiling.machine.environment.core_kinds import core_kind_of
from accelbench.profiling.machine.environment.cpu import cores_before_threads
from accelbench.profiling.machine.placement import ThreadPlacement, cpu_for_one_core, slow_cpu_flags
from accelbench.profiling.ranks.world import world
from accelbench.profiling.records.environment import Environment, Peak
from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.work import SHARED_CORES, Bound
from accelbench.profiling.telemetry.noise import noise_flags
from accelbench.profiling.telemetry.sampler import TelemetrySampler


class Observer:
    """Telemetry sampler for a `with` block; it runs on CPUs not used by the point, if there are any.

    `place` pins the measuring thread during warm-up and measurement: to one CPU for a single-core point. `cards` are
    the numbers of the devices with sensors; None for the first ones of the layout.
    """

    def __init__(
        self, point: Point, environment: Environment, layout: Layout, bound: Bound, cards: Sequence[int] | None = None
    ) -> None:
        self._point, self._environment, self._layout = point, environment, layout
        self._kept, there = kept_to_cpus(point, environment), environment.cpu.affinity
        self._one_core = point.device == "cpu" and bound.cores == "one" and world().size == 1
        cpu = cpu_for_one_core(environment.cpu.bandwidths, environment.cpu.kinds) if self._one_core else None
        self.place = ThreadPlacement(cpu)
        used = [cpu] if cpu is not None else self._kept
        others = sorted(set(there or []) - set(used or [])) if world().local_size == 1 else None
        place = others or self._kept or there
        self.sampler = TelemetrySampler(
            point.device, cpus=self._kept, place=place, cards=range(layout.devices) if cards is None else cards
        )

    def __enter__(self) -> Observer:
        self.sampler.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sampler.__exit__(kind, error, trace)

    def close(self) -> None:
        """End the sensor process."""
        self.sampler.close()

    def result(self, by_sample: bool = False) -> dict[str, Any]:
        """Return telemetry, noise and placement of the block as fields of a record.

        With `by_sample`, the samples were chosen by their causes.
        """
        telemetry, kept = self.sampler.result(), self._kept
        cpus, wall_s = self._environment.cpu.logical, telemetry.counters["wall_s"]
        flags = noise_flags(telemetry, wall_s, cpus, len(kept) if kept else None, world().local_size, by_sample)
        placement = self.place.placement
        if self._one_core:
            flags += slow_cpu_flags(placement, self._environment.cpu.bandwidths)
            kind = core_kind_of(self._environment.cpu.kinds, (placement.first, placement.last))
            placement = placement.model_copy(update={"core_kind": kind})
        return {"telemetry": telemetry, "noise": flags, "placement": placement}

    def peak(self, bound: Bound, unit_kind: str | None) -> Peak | None:
        """Return the vendor's peak of all devices of the point; None if the rate has no bound.

        The value is null for a CPU that several processes share.
        """
        if bound.metric is None:
            return None
        device, cores = self._point.device, len(self._kept) if self._kept else None
        one = device_kind(device).peak(self._environment, str(bound.dtype), bound.metric, unit_kind, cores)
        if one.value is None:
            return one
        count = self._layout.bounding_devices(device)
        if count is None:
            return Peak(value=None, reason=SHARED_CORES)
        return one.model_copy(update={"value": one.value * count})


def kept_to_cpus(point: Point, environment: Environment) -> list[int] | None:
    """Return the CPUs of a point that is limited to some of the host's CPUs; None for all.

    The affinity mask is used for one of several ranks on a host only: for a single process, an OpenMP library may have
    bound the calling thread to one CPU.
    """
    if world().local_size > 1 and hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    there, cores = environment.cpu.affinity, point.host_cores
    if cores is None or there is None or cores >= len(there):
        return None
    return sorted(cores_before_threads(there, kinds=environment.cpu.kinds)[:cores])
