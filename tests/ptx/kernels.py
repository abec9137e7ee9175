"""The project's kernels as the interpreter launches them: on NumPy arrays, as `prepare` launches them on a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel, NumbaKernel, TritonKernel
from accelbench.kernels.lib.gpu.triton_compiler import compile_triton, hidden_arguments
from tests.ptx.machine import MAX_INSTRUCTIONS, Buffer, Counts, Device
from tests.ptx.sources import HOPPER, Capability, entry_of, find_kernels, ptx_of


@dataclass
class Bench:
    """A device on which kernels run with one seed, for one compute capability."""

    capability: Capability = HOPPER
    seed: int = 1
    resident: int = 4
    races: bool = True
    limit: int = MAX_INSTRUCTIONS
    edit: Callable[[str, str], str] = lambda name, text: text
    """Function of a kernel's name and text that returns the text to execute."""
    executed: dict[str, set[int]] = field(default_factory=dict)
    """The lines of each kernel's text that have been executed."""
    device: Device = field(default_factory=Device)

    def run(self, kernel: DeviceKernel | str, grid: Any, block: Any, *arguments: Any) -> Counts:
        """Execute a kernel, given by itself or by its name in `device_code`, with the arguments of its launch."""
        found = named(kernel) if isinstance(kernel, str) else kernel
        module = self.device.load(self.text(found))
        is_numba = isinstance(found, NumbaKernel)
        passed = [
            argument.as_numba() if isinstance(argument, Buffer) and is_numba else argument for argument in arguments
        ]
        shared = found.shared_bytes if isinstance(found, CudaKernel) else 0
        if isinstance(found, TritonKernel):
            compiled = compile_triton(found, self.capability)
            passed, shared = passed + hidden_arguments(found, compiled), compiled.metadata.shared
        counts = module.launch(
            grid,
            block,
            *passed,
            entry=entry_of(found),
            shared=shared,
            seed=self.seed,
            resident=self.resident,
            races=self.races,
            limit=self.limit,
        )
        self.executed.setdefault(found.name, set()).update(counts.lines)
        return counts

    def text(self, kernel: DeviceKernel) -> str:
        return self.edit(kernel.name, ptx_of(kernel, self.capability))

    def given(self, array: Any) -> Buffer:
        return self.device.read_only(np.asarray(array))

    def changed(self, array: Any) -> Buffer:
        return self.device.buffer(np.asarray(array))

    def result(self, shape: int | tuple[int, ...], dtype: Any) -> Buffer:
        return self.device.empty(shape, dtype)


@cache
def named(name: str) -> DeviceKernel:
    """Return the kernel of that exact name; KeyError if no `device_code` lists it."""
    return {kernel.name: kernel for kernel in find_kernels()}[name]
