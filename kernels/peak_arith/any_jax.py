"""Rate of multiply-adds by JAX: chains of products and sums of each element, which XLA fuses into one kernel.

Bound: the multiply-add units, without matrix instructions; on a TPU, its vector unit. XLA chooses the vectors
and the order of the instructions, so the rate is what plain JAX reaches, and may be below the peak of the units. It has
run on CPUs only, not on a GPU or a TPU.

For each element, `chains` chains y ← y·a + b of `steps` steps start with its value x, and their alternating sum becomes
its next value. The factors a are 1 or −1 and known only at run time, so that XLA can neither shorten a chain nor merge
two of them. With a = 1 a chain gives x + steps·b, with a = −1 and an even number of steps x again. All numbers are
whole and small enough to be exact in every type, so that one missing step of any chain fails the check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from accelbench.kernels.lib.xla import Loop, Xla, timed_as_loop
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work


@dataclass(frozen=True)
class Chains:
    """Chains of each element, and the number of elements."""

    chains: int
    """Independent chains of an element, an even number: they hide the latency of the instructions on a CPU. The threads
    of a GPU hide it themselves."""
    steps: int
    """Multiply-adds of a chain, an even number."""
    elements: int
    """Elements: enough for all threads, and on a CPU few enough for its caches."""

    @property
    def flops(self) -> int:
        """FLOP of one execution."""
        return 2 * self.chains * self.steps * self.elements


ON_CPU, ON_ACCELERATOR = Chains(8, 16, 1 << 18), Chains(2, 128, 1 << 26)
LARGEST_START = 64
"""Largest |x|. With |b| = 1 no sum exceeds 64 + 8·16 or 2·128 = 256, the limit of exact whole numbers in bfloat16."""


def chains_on(device: Device) -> Chains:
    """Return the chains for a kind of device."""
    return ON_CPU if device == "cpu" else ON_ACCELERATOR


def advance(size: Chains, x: Any, b: Any, factors: Any) -> Any:
    """Return the alternating sum of the chains, which start with x."""
    total = None
    for chain, a in enumerate(factors):
        y = x
        for _ in range(size.steps):
            y = y * a + b
        total = y if total is None else total - y if chain % 2 else total + y
    return total


def expected(size: Chains, b: Any, factors: Any) -> Any:
    """Return the alternating sum in closed form: x cancels."""
    signs = np.where(np.arange(size.chains) % 2, -1, 1)[:, None]
    return size.steps * b * (signs * (factors > 0)).sum(axis=0)


def prepare(point: Point) -> Task:
    """Prepare random whole numbers; Skip without JAX on the device, for int8, or if JAX has too many threads."""
    dtype = str(point["dtype"])
    if dtype == "int8":
        raise Skip("XLA has no dot products of int8 among its elementwise operations: measure matmul impl=jax")
    xla = Xla.on(point, str(point["cores"]))
    size, rng = chains_on(point.device), point.rng()
    in_jax = np.dtype(xla.jax.numpy.dtype(dtype))
    xla.require_memory((size.chains + 3) * size.elements * in_jax.itemsize)

    def draw() -> tuple[Any, Any, Any]:
        """Write random numbers to the device, and return x, b and the factors."""
        x = rng.integers(-LARGEST_START, LARGEST_START, size.elements, np.int16, endpoint=True)
        b = rng.choice(np.array([-1, 1], np.int16), size.elements)
        factors = rng.choice(np.array([-1, 1], np.int16), (size.chains, size.elements))
        given = [xla.put(numbers.astype(in_jax)) for numbers in (b, *factors)]
        loop.arrays[:] = [xla.copy(x.astype(in_jax)), *given]
        return x, b, factors

    def verify() -> Verification:
        _, b, factors = draw()
        loop.run()
        found = np.asarray(loop.arrays[0]).astype(np.float64)
        wrong = int(np.count_nonzero(found != expected(size, b, factors)))
        return Verification(
            passed=wrong == 0,
            method="closed form of the chains of every element, exact in whole numbers",
            expected=f"all {size.elements:,} elements",
            found=f"{wrong:,} of them wrong",
        )

    loop = Loop(xla, lambda x, b, *factors: [advance(size, x, b, factors)], [None] * (size.chains + 2), [0])
    draw()
    metrics = {"chains of an element": Metric(size.chains), "steps of a chain": Metric(size.steps)}
    task = Task(loop.run, verify, Work(flops=size.flops, unit_kind="plain"), metrics=lambda _seconds: metrics)
    return timed_as_loop(task, loop)
