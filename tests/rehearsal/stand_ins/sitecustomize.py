"""Patches for the simulated driver, loaded at the start of Python from the rehearsal's PYTHONPATH.

The CUDA runtime is linked into its bindings and requires NVIDIA's driver, so the device functions of
`cuda.bindings.runtime` are replaced with `cuda_runtime.py`. The driver executes PTX, so Numba's linker and NVRTC return
PTX in place of machine code. The methods of all verifications contain `MARK`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from mark import MARK


def replace_runtime_functions(runtime: ModuleType) -> None:
    import cuda_runtime

    for name, function in vars(cuda_runtime).items():
        if name.startswith("cuda"):
            getattr(runtime, name)  # AttributeError if the real module lacks the function
            setattr(runtime, name, function)


def mark_verifications(benchmark: ModuleType) -> None:
    original = benchmark.Verification.__init__

    def marking_init(self: Any, *arguments: Any, **fields: Any) -> None:
        original(self, *arguments, **fields)
        object.__setattr__(self, "method", f"{self.method} ({MARK})")

    benchmark.Verification.__init__ = marking_init


def link_to_ptx(driver: ModuleType) -> None:
    import ptx_images

    ptx_images.link_to_ptx(driver)


def compile_to_ptx(nvrtc: ModuleType) -> None:
    import ptx_images

    ptx_images.compile_to_ptx(nvrtc)


def link_runtime_to_ptx(machine_code: ModuleType) -> None:
    import ptx_images

    ptx_images.link_runtime_to_ptx(machine_code)


def triton_to_ptx(compiler: ModuleType) -> None:
    import ptx_images

    ptx_images.triton_to_ptx(compiler)


PATCHES: dict[str, Callable[[ModuleType], None]] = {
    "cuda.bindings.runtime": replace_runtime_functions,
    "cuda.bindings.nvrtc": compile_to_ptx,
    "numba.cuda.cudadrv.driver": link_to_ptx,
    "accelbench.kernels.lib.gpu.machine_code": link_runtime_to_ptx,
    "accelbench.kernels.lib.gpu.triton_compiler": triton_to_ptx,
    "accelbench.profiling.benchmark": mark_verifications,
}


class PatchingLoader(Loader):
    """Loader that patches a module after its execution."""

    def __init__(self, original: Loader, patch: Callable[[ModuleType], None]) -> None:
        self._original, self._patch = original, patch

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._original.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._original.exec_module(module)
        self._patch(module)


class PatchingFinder(MetaPathFinder):
    """Finder for the modules in `PATCHES`."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path) if name in PATCHES else None
        if found is not None and found.loader is not None:
            found.loader = PatchingLoader(found.loader, PATCHES[name])
        return found


sys.meta_path.insert(0, PatchingFinder())
