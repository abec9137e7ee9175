"""Changes of Python for a driver that runs no kernel, read at start-up: this folder is on the rehearsal's PYTHONPATH.

CUDA's runtime is linked into its bindings and wants NVIDIA's own driver: the functions of `cuda.bindings.runtime` that
reach a device are replaced by those of `cuda_runtime.py`. And since no kernel runs, no answer can be right: each is
taken for right, and its record says that it was not checked. REHEARSAL_ANSWERS=checked leaves them to fail.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

UNCHECKED = "none: this is a rehearsal, and no kernel ran"


def answer_by_the_null_driver(runtime: ModuleType) -> None:
    import cuda_runtime

    for name, function in vars(cuda_runtime).items():
        if name.startswith("cuda"):
            getattr(runtime, name)  # AttributeError: the real one has no function of that name
            setattr(runtime, name, function)


def let_answers_pass(benchmark: ModuleType) -> None:
    made = benchmark.Verification.__init__

    def pass_it(self: Any, *arguments: Any, **fields: Any) -> None:
        made(self, *arguments, **fields)
        object.__setattr__(self, "passed", True)
        object.__setattr__(self, "method", UNCHECKED)

    benchmark.Verification.__init__ = pass_it


CHANGED: dict[str, Callable[[ModuleType], None]] = {
    "cuda.bindings.runtime": answer_by_the_null_driver,
    "accelbench.profiling.benchmark": let_answers_pass,
}
if os.environ.get("REHEARSAL_ANSWERS") == "checked":
    del CHANGED["accelbench.profiling.benchmark"]


class Changing(Loader):
    """Loads a module as its own loader does, and then changes it."""

    def __init__(self, own: Loader, change: Callable[[ModuleType], None]) -> None:
        self._own, self._change = own, change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._own.exec_module(module)
        self._change(module)


class Changes(MetaPathFinder):
    """Finds the modules that are changed, where they are."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path) if name in CHANGED else None
        if found is not None and found.loader is not None:
            found.loader = Changing(found.loader, CHANGED[name])
        return found


sys.meta_path.insert(0, Changes())
