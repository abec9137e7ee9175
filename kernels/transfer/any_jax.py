"""Copy of one size between host and device memory by JAX, timed from the call until it is complete.

Bound: the link between host and device; for small sizes the call, which is a part of every copy and not subtracted. As
in any JAX program, each copy allocates its destination. On a CPU both memories are the host's, where JAX would share an
array instead of copying it: its rates are those of copies in memory by one thread. It has run on CPUs only, not on a
GPU or a TPU.

`pageable` memory is a NumPy array, copied by `jax.device_put` and `jax.device_get`. `pinned` memory is an array of JAX
in page-locked memory of the host (memory kind `pinned_host`).
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from accelbench.kernels.lib.xla import Xla
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.work import Work

ALIGNMENT = 64
"""Alignment of arrays in bytes that XLA requires on a CPU."""
PINNED = "pinned_host"
"""JAX's name of page-locked host memory."""
REPEATED_BYTES = 1 << 28
"""Most bytes of the device arrays that are prepared at once for the copies of a sample."""


class JaxCopies:
    """Copies between host and device memory with the memory and direction of a point."""

    def __init__(self, point: Point) -> None:
        """Skip without JAX on the device, or without page-locked memory if the point has it."""
        self.xla = Xla.on(point)
        self._jax = self.xla.jax
        self.pinned = point["memory"] == "pinned"
        direction = str(point["direction"])
        self.ways = ("to-device", "from-device") if direction == "both" else (direction,)
        self._give, self._take = ("to-device" in self.ways, "from-device" in self.ways)
        kinds = [memory.kind for memory in self.xla.device.addressable_memories()]
        if self.pinned and PINNED not in kinds:
            raise Skip(f"JAX has no page-locked host memory for this device: its memories are {', '.join(kinds)}")
        place = self._jax.sharding.SingleDeviceSharding
        self._at_device = place(self.xla.device)
        self._at_host = place(self.xla.device, memory_kind=PINNED) if self.pinned else None

    def in_host_memory(self, values: Any) -> Any:
        """Return a copy of the values in host memory of the point's kind."""
        return self._put(values, self._at_host) if self.pinned else unaligned(values)

    def unread(self, device: Any, count: int) -> list[Any]:
        """Return copies of a device array in device memory. JAX keeps the host's copy of an array that was read."""
        return [self._jax.numpy.copy(device).block_until_ready() for _ in range(count)]

    def copy(self, host: Any, device: Any) -> list[Any]:
        """Copy in each direction, wait for completion, and return the destinations in the order of `ways`."""
        found = []
        if self._take and not self.pinned:
            device.copy_to_host_async()
        if self._give:
            found.append(self._put(host, self._at_device))
        if self._take:
            found.append(self._put(device, self._at_host) if self.pinned else self._get(device))
        return list(self._jax.block_until_ready(found))

    def _put(self, values: Any, place: Any) -> Any:
        return self._jax.device_put(values, place, may_alias=False)

    def _get(self, device: Any) -> Any:
        found = self._jax.device_get(device)
        return np.array(found) if self.xla.kind == "cpu" else found  # of a CPU, JAX returns a view


def unaligned(values: Any) -> Any:
    """Return a copy of the numbers in memory that JAX cannot use as a CPU's device memory, so that it copies it.

    Aligned to 64 bytes, it would be shared, in spite of `may_alias=False`.
    """
    room = np.empty(values.nbytes + 2 * ALIGNMENT, np.uint8)
    begin = -room.ctypes.data % ALIGNMENT + values.itemsize
    found = room[begin : begin + values.nbytes].view(values.dtype)
    found[:] = values
    return found


def prepare(point: Point) -> Task:
    """Prepare random numbers; Skip without JAX on the device, its page-locked memory, or enough memory."""
    copies, size, rng = JaxCopies(point), int(point["kib"]) * 1024, point.rng()
    xla, invert = copies.xla, copies.xla.jax.numpy.invert
    require_memory(3 * size)
    xla.require_memory(3 * size + REPEATED_BYTES)

    def draw() -> Any:
        return np.frombuffer(rng.bytes(size), np.uint32)

    host, device = copies.in_host_memory(draw()), xla.copy(draw())

    def sample(count: int) -> float:
        """Time a number of copies, and return the seconds per copy."""
        seconds, left = 0.0, count
        while left:
            sources = copies.unread(device, min(left, max(1, REPEATED_BYTES // size)))
            left -= len(sources)
            begin = perf_counter()
            for source in sources:
                copies.copy(host, source)
            seconds += perf_counter() - begin
        return seconds / count

    def verify() -> Verification:
        """Copy fresh random numbers, and compare each.

        The source of the host is overwritten, which a destination in the same memory would show. The device computes
        the complement of the numbers that it sends or has received, so that the host has no earlier copy of them.
        """
        sent = {way: draw() for way in copies.ways}
        given, own = copies.in_host_memory(sent.get("to-device", draw())), xla.copy(~sent.get("from-device", draw()))
        found = dict(zip(copies.ways, copies.copy(given, invert(own)), strict=True))
        if not copies.pinned:
            given[:] = 0
        if "to-device" in found:
            found["to-device"] = ~np.asarray(invert(found["to-device"]))
        wrong = sum(int(np.count_nonzero(np.asarray(found[way]) != sent[way])) for way in copies.ways)
        return Verification(
            passed=wrong == 0, method="random numbers, each compared", expected="0 wrong", found=f"{wrong:,} wrong"
        )

    work = Work(bytes=len(copies.ways) * size)
    return Task(lambda: sample(1), verify, work, timer="host", sample=sample, library="jax")
