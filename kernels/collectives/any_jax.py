"""Collectives by JAX between the devices of one process (`jax.shard_map`), compiled by XLA.

Bound: the links between the devices: the interconnect of TPUs, NVLink or PCIe of GPUs, for which XLA calls NCCL. One
program repeats the operation on all devices. Neighbours of `send-recv` are neighbours in JAX's order of the devices. It
has run on CPUs only, divided into devices, not on GPUs or TPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from accelbench.kernels.collectives.messages import message
from accelbench.kernels.collectives.reference import PIECE, expected, numbers, tolerance
from accelbench.kernels.collectives.task import BUFFERS, judge, link_metrics
from accelbench.kernels.lib.xla import Loop, Xla, timed_as_loop
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.work import Work
from accelbench.profiling.timing.verification import relative_error

AXIS = "device"
"""Name of the only axis of the device mesh."""
SAME_ON_ALL = ("all-reduce", "all-gather")
"""Operations with the same result on all devices."""


def operation(op: str, count: int) -> Callable[[Any], Any]:
    """Return the function of a device's elements that returns its result."""
    from jax import lax

    following = [(device, (device + 1) % count) for device in range(count)]
    return {
        "all-reduce": lambda x: lax.psum(x, AXIS),
        "all-gather": lambda x: lax.all_gather(x, AXIS, tiled=True),
        "reduce-scatter": lambda x: lax.psum_scatter(x, AXIS, tiled=True),
        "all-to-all": lambda x: lax.all_to_all(x, AXIS, 0, 0, tiled=True),
        "send-recv": lambda x: lax.ppermute(x, AXIS, following),
    }[op]


def prepare(point: Point) -> Task:
    """Return the task; Skip without JAX, if it sees fewer devices of this kind, or without enough memory."""
    op, count = str(point["op"]), int(point["devices"])
    xla = Xla.on(point, devices=count)
    devices, sizes = xla.first_devices(count), message(op, int(point["bytes"]), count)
    xla.require_memory(BUFFERS * sizes.bytes * (count if point.device == "cpu" else 1))
    jax, limit = xla.jax, tolerance(op, count)
    mesh, spec = jax.sharding.Mesh(np.array(devices), (AXIS,)), jax.sharding.PartitionSpec(AXIS)
    on_devices = jax.shard_map(operation(op, count), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    round_ = 0

    def spread(values: Callable[[int], Any]) -> Any:
        """Return the array that is distributed over the devices, with the values of each."""
        parts = [jax.numpy.array(values(rank), device=device) for rank, device in enumerate(devices)]
        shape, sharding = (count * parts[0].size,), jax.sharding.NamedSharding(mesh, spec)
        return jax.make_array_from_single_device_arrays(shape, sharding, parts)

    def draw() -> int:
        """Write fresh random inputs and poison the results with NaN; return the seed."""
        nonlocal round_
        round_ += 1
        seed = point.seed * (1 << 32) + round_
        loop.arrays[:] = [
            spread(lambda rank: numbers(seed, rank, 0, sizes.source)),
            spread(lambda _: np.full(sizes.target, np.nan, np.float32)),
        ]
        return seed

    def verify() -> Verification:
        seed = draw()
        loop.run()
        found = {shard.device: np.asarray(shard.data) for shard in loop.arrays[1].addressable_shards}
        errors = [0.0] * count
        for begin in range(0, sizes.target, PIECE):
            end = min(begin + PIECE, sizes.target)
            for rank, device in enumerate(devices):
                if rank == 0 or op not in SAME_ON_ALL:
                    right, scale = expected(op, seed, rank, count, sizes.target, begin, end)
                errors[rank] = max(errors[rank], relative_error(found[device][begin:end], right, scale))
        return judge(errors, op, limit, "device")

    loop = Loop(xla, lambda source, _target: [on_devices(source)], [None, None], [1])
    draw()
    metrics = partial(link_metrics, op, sizes, count)
    return timed_as_loop(Task(loop.run, verify, Work(bytes=sizes.bytes), metrics=metrics), loop)
