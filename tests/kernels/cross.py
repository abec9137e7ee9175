"""Cross-compilation of every CPU kernel by Numba for another CPU.

`python -m tests.kernels.cross compile FOLDER TRIPLE SVE_BYTES` runs the smallest points of each benchmark without
executing a kernel: each kernel that a point calls is compiled for the argument types of the call. So there is no list
of kernels, and new benchmarks are covered automatically. The assembly of all compiled kernels is written to the folder.

`python -m tests.kernels.cross object FOLDER TRIPLE SVE_BYTES FILE` compiles the kernels of a pickled file, also to
object code. NUMBA_CPU_NAME and NUMBA_CPU_FEATURES select the CPU. Two properties of this machine are replaced: the
architecture, which Numba reads from LLVM, and the width of SVE, read from Linux. Everything else is the same as on the
other CPU: the selection by features, Numba's passes, LLVM's optimisation and its AArch64 backend. The code is not
executed.
"""

from __future__ import annotations

import json
import pickle
import pkgutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba.core import types
from numba.core.dispatcher import Dispatcher, OmittedArg

from accelbench import kernels

CHECKS = "accelbench.kernels.treesearch.nqueens.borders", "accelbench.kernels.treesearch.nqueens.recount"
"""Modules with kernels of the verification only, which recount boards that are not in the published table."""
NARROW = "accelbench.kernels.peak_arith.cpu_dots", "accelbench.kernels.peak_arith.cpu_tiles"
"""Modules with kernels that are called only if this CPU has their instructions."""
OTHERS = "vendor", "torch", "jax", "mpi", "gloo"
"""Implementations by libraries."""
Signatures = list[tuple[str, str, Any]]
"""Module, name and argument types of each kernel."""


def dispatchers() -> Iterator[tuple[str, str, Any]]:
    """Yield module, name and dispatcher of each kernel in the loaded modules of `kernels`."""
    for module in sorted(name for name in sys.modules if name.startswith("accelbench.kernels.")):
        for name, found in sorted(vars(sys.modules[module]).items()):
            if isinstance(found, Dispatcher) and found.py_func.__module__ == module:
                yield module, name, found


def smallest_points() -> Iterator[Any]:
    """Yield points of all CPU benchmarks with Numba kernels: every text value of an axis, and the smallest number.

    Optional axes are included with all of their text values.
    """
    from accelbench.profiling.benchmark import REGISTRY
    from accelbench.profiling.records.point import Point

    for package in pkgutil.walk_packages(kernels.__path__, "accelbench.kernels."):
        if package.ispkg:
            import_module(package.name)
    for name, benchmark in REGISTRY.items():
        axes = benchmark.axes_on("cpu") if "cpu" in benchmark.devices else {"processes": ()}
        if "processes" in axes:
            continue  # benchmarks of links between processes have no CPU kernels
        choices = benchmark.choices_on("cpu") if "cpu" in benchmark.devices else {}
        axes = {**axes, **{axis: choices[axis] for axis in benchmark.optional if axis in choices}}
        values = [(min(v),) if all(isinstance(x, int) for x in v) else v for v in axes.values()]
        for chosen in product(*values):
            params = dict(zip(axes, chosen, strict=True))
            module = benchmark.implementation("cpu", params)
            if benchmark.exclusion("cpu", None, params) or module is None or module.endswith(OTHERS):
                continue
            yield Point(name, "cpu", params)


def signatures() -> Signatures:
    """Run the points without executing kernels; return the kernels that they call and those which these call.

    Raises RuntimeError if a kernel was never called.
    """
    from accelbench.profiling.benchmark import REGISTRY

    Dispatcher._compile_for_args = _compile_only
    Dispatcher._insert = lambda *arguments, **options: None  # else a second call would execute the code
    for point in smallest_points():
        task = REGISTRY[point.benchmark].prepare(point)
        task.run()
        if task.metrics is not None:
            task.metrics(1.0)
    found = [(m, name, given) for m, name, kernel in dispatchers() for given in kernel.signatures]
    called = {(m, name) for m, name, _ in found}
    never = [f"{m}.{name}" for m, name, _ in dispatchers() if (m, name) not in called and m not in CHECKS + NARROW]
    if never:
        raise RuntimeError(f"kernels that no point calls: {', '.join(never)}")
    return found


def _compile_only(kernel: Any, *arguments: Any) -> Callable[..., Any]:
    """Compile a kernel for a call from Python, and return what is called in its place.

    Arrays that a kernel returns determine the later calls, so Python computes them; numbers do not.
    """
    given = (types.Omitted(a.value) if isinstance(a, OmittedArg) else kernel.typeof_pyval(a) for a in arguments)
    result = compile_kernel(kernel, tuple(given)).signature.return_type
    if isinstance(result, types.NoneType | types.Number):
        return lambda *arguments: None if isinstance(result, types.NoneType) else 1
    return partial(_interpret, kernel)


def _interpret(kernel: Any, *arguments: Any) -> Any:
    """Call a kernel, and the kernels that it calls, as Python functions."""
    Dispatcher._compile_for_args = lambda called, *arguments: called.py_func
    try:
        return kernel.py_func(*arguments)
    finally:
        Dispatcher._compile_for_args = _compile_only


def pretend(triple: str, sve_bytes: int) -> None:
    """Replace the architecture reported by LLVM and the SVE width reported by Linux; call it before kernels load."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.get_process_triple = lambda: triple
    from accelbench.kernels.lib.cpu import target

    target.sve_bytes = lambda: sve_bytes
    from accelbench.kernels.lib.cpu import arrays

    # Arrays are four times as large as the last-level cache, which can have hundreds of MiB.
    arrays.SMALLEST, arrays.last_level_bytes = 1 << 16, lambda: 1 << 12


def compile_kernel(kernel: Any, given: Any) -> Any:
    """Return Numba's code of a kernel for the given argument types, optimised for the selected CPU.

    A kernel that another one has called is already compiled.
    """
    if given not in kernel.overloads:
        kernel.compile(given)
    return kernel.overloads[given]


def object_code(library: Any) -> bytes:
    """Return the object code of a library of `compile_kernel` for the linker of the selected CPU."""
    return bytes(library.codegen._tm.emit_object(library._final_module))


def compile_all(wanted: Signatures, folder: Path, linked: bool) -> None:
    """Write the assembly of each kernel, its object code if `linked`, and their index, `symbols.json`."""
    symbols = []
    for number, (module, name, given) in enumerate(wanted):
        compiled = compile_kernel(getattr(import_module(module), name), given)
        (folder / f"{number}.s").write_text(compiled.library.get_asm_str())
        if linked:
            (folder / f"{number}.o").write_bytes(object_code(compiled.library))
        symbols.append([module, name, str(given), compiled.fndesc.llvm_func_name])
    (folder / "symbols.json").write_text(json.dumps(symbols))


def main() -> None:
    """Run the command of the module's docstring."""
    command, folder, triple, sve_bytes, *file = sys.argv[1:]
    pretend(triple, int(sve_bytes))
    wanted = pickle.loads(Path(*file).read_bytes()) if command == "object" else signatures()
    compile_all(wanted, Path(folder), linked=command == "object")


if __name__ == "__main__":
    main()
