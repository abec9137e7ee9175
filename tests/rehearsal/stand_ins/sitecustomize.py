"""Patches for a driver that executes no kernel, loaded at the start of Python from the rehearsal's PYTHONPATH.

The CUDA runtime is linked into its bindings and requires NVIDIA's driver, so the device functions of
`cuda.bindings.runtime` are replaced with `cuda_runtime.py`. Without executed kernels every verification would fail, so
all verifications pass, with the method `UNCHECKED` in the record. REHEARSAL_ANSWERS=checked disables this.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from unchecked import UNCHECKED


def replace_runtime_functions(runtime: ModuleType) -> None:
    import cuda_runtime

    for name, function in vars(cuda_runtime).items():
        if name.startswith("cuda"):
            getattr(runtime, name)  # AttributeError if the real module lacks the function
            setattr(runtime, name, function)


def pass_verifications(benchmark: ModuleType) -> None:
    original = benchmark.Verification.__init__

    def passing_init(self: Any, *arguments: Any, **fields: Any) -> None:
        original(self, *arguments, **fields)
        object.__setattr__(self, "passed", True)
        object.__setattr__(self, "method", UNCHECKED)

    benchmark.Verification.__init__ = passing_init


PATCHES: dict[str, Callable[[ModuleType], None]] = {
    "cuda.bindings.runtime": replace_runtime_functions,
    "accelbench.profiling.benchmark": pass_verifications,
}
if os.environ.get("REHEARSAL_ANSWERS") == "checked":
    del PATCHES["accelbench.profiling.benchmark"]


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
