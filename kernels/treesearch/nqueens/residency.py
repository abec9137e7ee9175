"""Occupancy: resident blocks of a kernel per multiprocessor, from its resources.

Source: CUDA C++ Programming Guide, "Hardware Multithreading" and the technical specifications per compute capability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accelbench.kernels.lib.gpu.numba_cuda import simulated
from accelbench.profiling.machine.nvidia.cuda import attribute

WARP = 32
ALL_SHARED: dict[str, Any] = {} if simulated else {"shared_memory_carveout": "maxshared"}
"""Options for `cuda.jit`: shared memory gets all that can be had of what it divides with the first-level cache.

The simulator, which has neither, is not asked.
"""


@dataclass(frozen=True)
class Multiprocessor:
    """The resources that the blocks on one multiprocessor share."""

    shared_bytes: int
    reserved_bytes: int
    """Shared memory that the system takes of each block: 1 KiB from compute capability 8.0 on."""
    registers: int
    threads: int
    blocks: int
    """The most blocks that it holds, however small they are."""

    def resident(self, threads: int, registers: int, shared_bytes: int) -> int:
        """Return the blocks at once, if each has so many threads, registers per thread and bytes of shared memory."""
        warps = -(-threads // WARP)
        registers_of_a_warp = -(-registers // 8) * 8 * WARP
        return min(
            self.shared_bytes // (shared_bytes + self.reserved_bytes),
            self.registers // registers_of_a_warp // warps,
            self.threads // (warps * WARP),
            self.blocks,
        )


def this_device() -> Multiprocessor:
    """Return a multiprocessor of the current device, as its attributes tell."""
    return Multiprocessor(
        shared_bytes=attribute("MaxSharedMemoryPerMultiprocessor"),
        reserved_bytes=attribute("ReservedSharedMemoryPerBlock"),
        registers=attribute("MaxRegistersPerMultiprocessor"),
        threads=attribute("MaxThreadsPerMultiProcessor"),
        blocks=attribute("MaxBlocksPerMultiprocessor"),
    )


def registers_per_thread(kernel: Any, signature: Any) -> int:
    """Return the registers that a thread of a Numba kernel takes, as compiled for the current device."""
    kernel.compile(signature)
    return int(kernel.get_regs_per_thread(signature))
