"""Every CPU kernel compiled for a CPU that is not here, by Numba as it would compile it there.

`python -m tests.kernels.cross signatures FILE` runs each benchmark's smallest points on this CPU and writes which
kernels were called with which types: no list of kernels is kept, and a new benchmark is covered when it is declared.

`python -m tests.kernels.cross compile FILE FOLDER TRIPLE SVE_BYTES` compiles those into assembly, and with `object` for
`compile` into object code, too, with NUMBA_CPU_NAME and NUMBA_CPU_FEATURES in its environment naming the CPU. Two
answers of this machine are replaced by that CPU's: LLVM's for the architecture, which Numba asks for, and Linux' for
the width of SVE. All else is what runs there: the choice by feature, Numba's passes, LLVM's optimisation and its
AArch64 backend. Nothing is loaded, so nothing has to run here.
"""

from __future__ import annotations

import json
import pickle
import pkgutil
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba.core import compiler
from numba.core.dispatcher import Dispatcher

from accelbench import kernels

CHECKS = "accelbench.kernels.treesearch.nqueens.borders", "accelbench.kernels.treesearch.nqueens.recount"
"""Modules whose kernels count boards beyond the published table again, and take no part in what is measured."""
OTHERS = "vendor", "torch", "mpi", "gloo"
"""What implements a benchmark by a library's code."""
Signatures = list[tuple[str, str, Any]]
"""The module and the name of each kernel, with the types of its arguments."""


def dispatchers() -> Iterator[tuple[str, str, Any]]:
    """Yield module, name and dispatcher of each kernel in the modules of `kernels` that are loaded."""
    for module in sorted(name for name in sys.modules if name.startswith("accelbench.kernels.")):
        for name, found in sorted(vars(sys.modules[module]).items()):
            if isinstance(found, Dispatcher) and found.py_func.__module__ == module:
                yield module, name, found


def smallest_points() -> Iterator[Any]:
    """Yield points of all CPU benchmarks that Numba's kernels implement: each word of each axis, the least number.

    An axis that a point may leave out is given with all of its words.
    """
    from accelbench.profiling.benchmark import REGISTRY
    from accelbench.profiling.records.point import Point

    for package in pkgutil.walk_packages(kernels.__path__, "accelbench.kernels."):
        if package.ispkg:
            import_module(package.name)
    for name, benchmark in REGISTRY.items():
        axes = benchmark.axes_on("cpu") if "cpu" in benchmark.devices else {"processes": ()}
        if "processes" in axes:
            continue  # links between processes are no matter of the CPU's instructions
        axes = {**axes, **{axis: benchmark.choices[axis] for axis in benchmark.optional if axis in benchmark.choices}}
        values = [(min(v),) if all(isinstance(x, int) for x in v) else v for v in axes.values()]
        for chosen in product(*values):
            params = dict(zip(axes, chosen, strict=True))
            module = benchmark.implementation("cpu", params)
            if benchmark.exclusion("cpu", None, params) or module is None or module.endswith(OTHERS):
                continue
            yield Point(name, "cpu", params)


def signatures() -> Signatures:
    """Run the points, and return what was called; RuntimeError if one of their kernels never was."""
    from accelbench.profiling.benchmark import REGISTRY

    for point in smallest_points():
        task = REGISTRY[point.benchmark].prepare(point)
        task.run()
        if task.metrics is not None:
            task.metrics(1.0)
    found = [(m, name, types) for m, name, kernel in dispatchers() for types in kernel.signatures]
    called = {(m, name) for m, name, _ in found}
    never = [f"{m}.{name}" for m, name, _ in dispatchers() if (m, name) not in called and m not in CHECKS]
    if never:
        raise RuntimeError(f"no point calls {', '.join(never)}")
    return found


def pretend(triple: str, sve_bytes: int) -> None:
    """Let LLVM name that architecture and Linux that width of SVE, before a kernel's module is loaded."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.get_process_triple = lambda: triple
    from accelbench.kernels.lib.cpu import target

    target.sve_bytes = lambda: sve_bytes


def compile_kernel(kernel: Any, types: Any) -> Any:
    """Return Numba's library of one kernel for those types, optimised for the CPU of this process."""
    flags = compiler.Flags()
    kernel.targetdescr.options.parse_as_flags(flags, kernel.targetoptions)
    typing, target = kernel.targetdescr.typing_context, kernel.targetdescr.target_context
    return compiler.compile_extra(typing, target, kernel.py_func, types, None, flags, {})


def object_code(library: Any) -> bytes:
    """Return what a linker for that CPU takes, of a library that `compile_kernel` made."""
    return bytes(library.codegen._tm.emit_object(library._final_module))


def compile_all(wanted: Signatures, folder: Path, linked: bool) -> None:
    """Write each kernel's assembly, its object code if it is to be linked, and `symbols.json`: which file has which."""
    symbols = []
    for number, (module, name, types) in enumerate(wanted):
        compiled = compile_kernel(getattr(import_module(module), name), types)
        (folder / f"{number}.s").write_text(compiled.library.get_asm_str())
        if linked:
            (folder / f"{number}.o").write_bytes(object_code(compiled.library))
        symbols.append([module, name, str(types), compiled.fndesc.llvm_func_name])
    (folder / "symbols.json").write_text(json.dumps(symbols))


def main() -> None:
    """See above."""
    command, file, *rest = sys.argv[1:]
    if command == "signatures":
        Path(file).write_bytes(pickle.dumps(signatures()))
        return
    folder, triple, sve_bytes = rest
    pretend(triple, int(sve_bytes))
    compile_all(pickle.loads(Path(file).read_bytes()), Path(folder), linked=command == "object")


if __name__ == "__main__":
    main()
