"""Kernels in JAX, compiled by XLA for a CPU, a GPU or a TPU, and the loop that repeats them within one program.

A call of a compiled program takes 10 to 100 µs of the host, which would be a large part of a short kernel. So one
program repeats the kernel a given number of times, on the device, and is compiled once for all numbers. Each execution
depends on the outputs of the previous one by an optimization barrier: XLA may neither remove it nor move any part of it
out of the loop, and `Loop` checks the compiled program for that. The outputs are donated, as an optimizer's parameters
are, so that no call allocates them. Temporary arrays of XLA are allocated in each call, as in any JAX program.
"""

from __future__ import annotations

import os
import re
import statistics
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from time import perf_counter
from typing import Any

import numpy as np

from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.devices import device_kind
from accelbench.profiling.devices.cpu import split_for_xla
from accelbench.profiling.machine.free_memory import SHARE, require_memory
from accelbench.profiling.machine.packages import not_installed
from accelbench.profiling.machine.placement import current_cpu, on_cpus
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.text import format_bytes

KERNEL = "kernel"
"""Name of the scope of the repeated kernel; XLA keeps it in the names of the operations."""
OVERHEAD_CALLS = 20
LACKING = "UNIMPLEMENTED"
"""Status in XLA's error for an operation or a type that the generation of a device lacks."""
COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$")
CALLED = re.compile(r"(?:calls|body|condition|to_apply|branch_computations)=\{?%?([\w.-]+(?:, ?%?[\w.-]+)*)")
NAMES = re.compile(r"%[\w.-]+")
IN_KERNEL = re.compile(rf"/{KERNEL}/|= \w+\[\d[\d,]*\]\S* copy\(")
BODY = re.compile(r" while\(.* body=%?([\w.-]+)")

_cpus_of_jax: dict[str, frozenset[int]] = {}
"""The CPUs on which JAX started its threads in this process, under the key `cpu`."""


@dataclass(frozen=True)
class Xla:
    """JAX and the device on which it measures."""

    jax: Any
    device: Any
    kind: Device

    @classmethod
    def on(cls, point: Point, cores: str = "all", devices: int = 1) -> Xla:
        """Return JAX with the first device of the point's kind.

        `cores="one"` starts JAX with its threads on one CPU, and `devices` is the number of devices as which it sees
        the CPU. Skip if JAX is missing or sees fewer devices of this kind, or if it has already started in this process
        on other CPUs.
        """
        try:
            jax = import_module("jax")
        except ImportError as error:
            remedy = device_kind(point.device).framework_install("jax")
            raise Skip(f"{not_installed('jax', remedy)} ({error})") from error
        # float64 and int64 exist only with this setting; all kernels declare their types.
        jax.config.update("jax_enable_x64", True)
        if point.device == "cpu" and not os.environ.get("JAX_PLATFORMS"):
            jax.config.update("jax_platforms", "cpu")  # else JAX would reserve the memory of a GPU, too
        if point.device == "cpu":
            split_for_xla(devices)
        with _threads_on(cores):
            found = cls(jax, _first_device(jax, point.device), point.device)
        found.first_devices(devices)
        return found

    def first_devices(self, count: int) -> list[Any]:
        """Return the first devices of this process, in JAX's order; Skip if JAX sees fewer."""
        found: list[Any] = self.jax.local_devices(backend=self.kind)
        if len(found) < count:
            settings = (f"{name}={value}" for name in ("JAX_PLATFORMS", "XLA_FLAGS") if (value := os.environ.get(name)))
            given = ", ".join(settings)
            devices = f"{len(found)} {self.kind.upper()} device{'s' * (len(found) > 1)}{f' ({given})' if given else ''}"
            raise Skip(f"the point needs {count} devices, and JAX sees {devices}: choose fewer by --param devices=")
        return found[:count]

    def put(self, array: Any) -> Any:
        """Return a NumPy array as an array of the device; on a CPU it may share the memory, so do not change it."""
        return self.jax.device_put(array, self.device)

    def copy(self, array: Any) -> Any:
        """Return a copy of a NumPy array on the device, which may be donated."""
        return self.jax.numpy.array(array, device=self.device)

    def full(self, shape: tuple[int, ...], value: float, dtype: Any) -> Any:
        """Return an array on the device with the same value in every element."""
        return self.jax.numpy.full(shape, value, dtype, device=self.device)

    def require_memory(self, needed: float) -> None:
        """Raise Skip if arrays of `needed` bytes would take more than half of the available memory of the device."""
        if self.kind == "cpu":
            require_memory(needed)
        elif needed > SHARE * self.free_bytes():
            raise Skip(
                f"needs {format_bytes(needed)} of device memory; half of the free {format_bytes(self.free_bytes())} "
                f"is {format_bytes(SHARE * self.free_bytes())}"
            )

    def free_bytes(self) -> int:
        """Return the bytes of an accelerator's memory that JAX may still allocate."""
        used = self.device.memory_stats()
        return int(used["bytes_limit"] - used["bytes_in_use"])


def _first_device(jax: Any, kind: Device) -> Any:
    """Return the first device of a kind; Skip, with the devices that JAX sees, if there is none."""
    try:
        return jax.devices(kind)[0]
    except RuntimeError:
        try:
            seen = ", ".join(dict.fromkeys(device.platform for device in jax.devices()))
        except RuntimeError as error:
            seen = f"no device ({error})"
        setting = os.environ.get("JAX_PLATFORMS")
        because = f" (JAX_PLATFORMS={setting})" if setting else ""
        remedy = device_kind(kind).framework_install("jax")
        raise Skip(f"JAX sees no {kind.upper()}: found {seen}{because}: {remedy}") from None


def _threads_on(cores: str) -> Any:
    """Return the block in which JAX may start its threads: on all CPUs of the process, or on the current one."""
    if not hasattr(os, "sched_getaffinity"):
        if cores == "one":
            raise Skip("XLA's threads can be limited to one core on Linux only")
        return nullcontext()
    everywhere = frozenset(os.sched_getaffinity(0))
    here = current_cpu()
    one = here if here in everywhere else min(everywhere)
    started = _cpus_of_jax.setdefault("cpu", frozenset({one}) if cores == "one" else everywhere)
    if cores == "one" and len(started) > 1:
        raise Skip(f"JAX has already started in this process with threads for {len(started)} CPUs")
    if cores == "all" and started < everywhere:
        raise Skip(f"JAX has already started in this process with threads for {len(started)} of {len(everywhere)} CPUs")
    return on_cpus(started)


class Loop:
    """Kernel on arrays of a device, repeated by one compiled program.

    `kernel(*arrays)` returns the new contents of the arrays with the indices `written`, in their order, with the same
    shapes and types.
    """

    def __init__(
        self, xla: Xla, kernel: Callable[..., Sequence[Any]], arrays: Sequence[Any], written: Sequence[int]
    ) -> None:
        self._xla, self._kernel = xla, kernel
        self.arrays = list(arrays)
        self.compilation_s = 0.0
        self._written = list(written)
        self._read = [place for place in range(len(arrays)) if place not in written]
        self._program: Callable[..., list[Any]] | None = None
        self._overhead_s: float | None = None

    def run(self) -> None:
        """Execute the kernel once and wait for its end."""
        self.repeat(1)

    def repeat(self, count: int) -> None:
        """Execute the kernel a number of times in one call of the program, and wait for the end."""
        if self._program is None:
            begin = perf_counter()
            self._program = self._compile()
            self.compilation_s = perf_counter() - begin
        updated = self._program(np.int32(count), *self._arguments())
        for place, array in zip(self._written, updated, strict=True):
            self.arrays[place] = array.block_until_ready()

    def _arguments(self) -> tuple[list[Any], list[Any]]:
        """Return the arrays that are only read, and those that are written."""
        return [self.arrays[place] for place in self._read], [self.arrays[place] for place in self._written]

    def sample(self, count: int) -> float:
        """Time a number of executions, and return the seconds per execution."""
        begin = perf_counter()
        self.repeat(count)
        return (perf_counter() - begin) / count

    def overhead_s(self) -> float:
        """Return the median seconds of a call without an execution."""
        if self._overhead_s is None:
            self.repeat(0)
            self._overhead_s = statistics.median(self._seconds_of_none() for _ in range(OVERHEAD_CALLS))
        return self._overhead_s

    def _seconds_of_none(self) -> float:
        begin = perf_counter()
        self.repeat(0)
        return perf_counter() - begin

    def metrics(self) -> dict[str, Metric]:
        """Return the seconds of the compilation, and of a call of the program without an execution."""
        return {
            "compilation": Metric(self.compilation_s, "s"),
            "call of the program": Metric(1e6 * self.overhead_s(), "µs"),
        }

    def _compile(self) -> Callable[..., list[Any]]:
        """Return the compiled program of (count, read, written); it accepts no other shapes and types."""
        jax, kernel = self._xla.jax, self._kernel

        def step(_: Any, carried: tuple[list[Any], list[Any]]) -> tuple[list[Any], list[Any]]:
            read, written = jax.lax.optimization_barrier(carried)
            arrays = dict(zip([*self._read, *self._written], [*read, *written], strict=True))
            with jax.named_scope(KERNEL):
                return read, list(kernel(*(arrays[place] for place in range(len(arrays)))))

        def program(count: Any, read: list[Any], written: list[Any]) -> list[Any]:
            updated: list[Any] = jax.lax.fori_loop(0, count, step, (read, written))[1]
            return updated

        lowered = jax.jit(program, donate_argnums=2).lower(np.int32(0), *self._arguments())
        try:
            compiled = lowered.compile()
        except jax.errors.JaxRuntimeError as error:
            if LACKING not in str(error):
                raise
            raise Skip(f"XLA cannot compile this for {self._xla.device.device_kind}: {first_line(error)}") from error
        require_repeated(compiled.as_text())
        result: Callable[..., list[Any]] = compiled
        return result


def require_repeated(hlo: str) -> None:
    """Raise RuntimeError if XLA removed the kernel from the loop or moved an operation of it out of the loop."""
    inside, outside = placed(hlo)
    if outside:
        raise RuntimeError(f"XLA moved {len(outside)} operations of the kernel out of the loop: {outside[0]}")
    if not inside:
        raise RuntimeError("XLA removed the kernel from the loop")


def placed(hlo: str) -> tuple[list[str], list[str]]:
    """Return the kernel's operations inside and outside the loops of a compiled program, as lines of its HLO text.

    Operations of fused computations and of loops within the kernel belong to the loop that calls them. A copy of an
    array in a loop counts as the kernel's, because XLA replaces the kernel's copies by unnamed ones. Operations on
    constants only, as for a mask, may be outside.
    """
    computations: dict[str, list[str]] = {}
    name = ""
    for line in hlo.splitlines():
        if found := COMPUTATION.match(line):
            name = found[1]
        computations.setdefault(name, []).append(line.strip())
    reached: set[str] = set()
    waiting = [body for lines in computations.values() for line in lines for body in BODY.findall(line)]
    while waiting:
        if (current := waiting.pop()) not in reached:
            reached.add(current)
            called = (names for line in computations.get(current, []) for names in CALLED.findall(line))
            waiting += [each.strip(" %") for names in called for each in names.split(",")]
    inside = [line for name in reached for line in computations.get(name, []) if IN_KERNEL.search(line)]
    others = [lines for name, lines in computations.items() if name not in reached]
    outside = [line for lines in others for line in _on_data(lines) if f"/{KERNEL}/" in line]
    return inside, outside


def _on_data(lines: Sequence[str]) -> list[str]:
    """Return the operations of a computation that depend on its parameters."""
    known: set[str] = set()
    found = []
    for line in lines:
        name, _, operation = line.removeprefix("ROOT ").partition(" = ")
        if " parameter(" in operation or known.intersection(NAMES.findall(operation)):
            known.add(name)
            found.append(line)
    return found


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def timed_as_loop(task: Task, loop: Loop) -> Task:
    """Return the task timed by the host's clock around calls of the loop's program."""

    def metrics(seconds: float) -> dict[str, Metric]:
        return {**(task.metrics(seconds) if task.metrics else {}), **loop.metrics()}

    return replace(task, timer="host", sample=loop.sample, overhead=loop.overhead_s, metrics=metrics, library="jax")
