"""Occupancy: resident blocks of a kernel per multiprocessor, from its resources.

Source: CUDA C++ Programming Guide, "Hardware Multithreading" and the technical specifications per compute capability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accelbench.profiling.machine.nvidia.cuda import attribute

WARP = 32
ALL_SHARED: dict[str, Any] = {"shared_memory_carveout": "maxshared"}
"""Options of `cuda.jit` for the maximum share of shared memory in the memory that it shares with L1."""


@dataclass(frozen=True)
class Multiprocessor:
    """Resources of one multiprocessor, shared by its blocks."""

    shared_bytes: int
    reserved_bytes: int
    """Shared memory reserved by the system for each block: 1 KiB from compute capability 8.0 on."""
    registers: int
    threads: int
    blocks: int
    """Maximum resident blocks, independent of their size."""

    def resident(self, threads: int, registers: int, shared_bytes: int) -> int:
        """Return the resident blocks for a block size, registers per thread and shared memory per block in bytes."""
        warps = -(-threads // WARP)
        registers_of_a_warp = -(-registers // 8) * 8 * WARP
        return min(
            self.shared_bytes // (shared_bytes + self.reserved_bytes),
            self.registers // registers_of_a_warp // warps,
            self.threads // (warps * WARP),
            self.blocks,
        )


def this_device() -> Multiprocessor:
    """Return the multiprocessor of the current device, from its attributes."""
    return Multiprocessor(
        shared_bytes=attribute("MaxSharedMemoryPerMultiprocessor"),
        reserved_bytes=attribute("ReservedSharedMemoryPerBlock"),
        registers=attribute("MaxRegistersPerMultiprocessor"),
        threads=attribute("MaxThreadsPerMultiProcessor"),
        blocks=attribute("MaxBlocksPerMultiprocessor"),
    )


def resident_blocks(threads: int, at_most: int, shared_bytes: int = 0) -> int:
    """Return the number of blocks that the current device runs at once, at most `at_most` per multiprocessor.

    `at_most` is the number for which the kernel's registers are limited. A multiprocessor of compute capability 8.6,
    8.9 or 12.0 has 1,536 threads and 100 KiB of shared memory, and runs fewer blocks than an A100's or H100's.
    """
    each = attribute("MaxThreadsPerMultiProcessor") // threads
    if shared_bytes:
        whole, reserved = attribute("MaxSharedMemoryPerMultiprocessor"), attribute("ReservedSharedMemoryPerBlock")
        each = min(each, whole // (shared_bytes + reserved))
    return max(1, min(at_most, each)) * attribute("MultiProcessorCount")


def registers_per_thread(kernel: Any, signature: Any) -> int:
    """Return the registers per thread of a Numba kernel, as compiled for the current device."""
    kernel.compile(signature)
    return int(kernel.get_regs_per_thread(signature))
