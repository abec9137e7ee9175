"""Report of every GPU kernel's registers, memory and main loop, without a GPU (`make kernels-report`).

The exit status is 1 if a kernel that is declared tuned spills registers, 0 otherwise.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from types import ModuleType

from rich.console import Console
from rich.progress import track
from rich.table import Table

from accelbench.kernels.lib.gpu.compilation import Capability, MachineCode, architectures, compile_kernel, toolchain
from accelbench.kernels.lib.gpu.device_code import DeviceKernel
from accelbench.profiling.benchmark import Skip

WIDTH = 120
"""Width of the table in characters if the output is no terminal."""


def device_kernels() -> list[DeviceKernel]:
    """Return all kernels declared by the `gpu_*.py` of the benchmarks, in the order of file names."""
    declared = [module.device_code() for module in _gpu_modules(importlib.import_module("accelbench.kernels"))]
    return list(chain.from_iterable(declared))


def _gpu_modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if found.ispkg:
            yield from _gpu_modules(importlib.import_module(found.name))
        elif found.name.rpartition(".")[2].startswith("gpu_"):
            module = importlib.import_module(found.name)
            if hasattr(module, "device_code"):
                yield module


def select_jobs() -> tuple[argparse.Namespace, list[tuple[DeviceKernel, Capability]]]:
    """Return the options of the command line, and the kernels and compute capabilities that they select."""
    parser = argparse.ArgumentParser(prog="python -m accelbench.kernels.report", description=__doc__)
    parser.add_argument("name", nargs="*", help="only kernels with all of these words in their name")
    parser.add_argument("--capability", help="only this compute capability, such as 9.0")
    parser.add_argument("--sass", action="store_true", help="also print the instructions of the main loop")
    options = parser.parse_args()
    kernels = [kernel for kernel in device_kernels() if all(word in kernel.name.split() for word in options.name)]
    if not kernels:
        parser.error(f"no kernel has the words {' '.join(options.name)} in its name")
    jobs = [
        (kernel, (major, minor))
        for kernel in kernels
        for major, minor in architectures(kernel)
        if options.capability in (None, f"{major}.{minor}")
    ]
    if not jobs:
        parser.error(f"none of these kernels supports compute capability {options.capability}")
    return options, jobs


def make_console() -> Console:
    """Return the console of the tables."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


def main() -> int:
    """Compile the selected kernels and print the table; return 1 if a tuned kernel spills registers."""
    options, jobs = select_jobs()
    console = make_console()
    found, skipped = [], Counter[str]()
    for kernel, capability in track(jobs, "compiling", console=Console(stderr=True), transient=True):
        try:
            found.append((kernel, capability, compile_kernel(kernel, capability)))
        except Skip as skip:
            skipped[str(skip)] += 1
    console.print(f"compiled by {toolchain()}")
    console.print(table(found))
    for reason, count in skipped.items():
        console.print(f"{count} not compiled: {reason}", markup=False)
    if options.sass:
        for kernel, (major, minor), code in found:
            console.print(f"\n{kernel.name}, compute capability {major}.{minor}", style="bold")
            console.print("\n".join(code.loop), markup=False)
    spilling = sorted({kernel.name for kernel, _, code in found if kernel.tuned and code.spill_bytes})
    if spilling:
        console.print(f"tuned kernels spill registers: {', '.join(spilling)}", style="bold red")
    return int(bool(spilling))


def table(found: Sequence[tuple[DeviceKernel, Capability, MachineCode]]) -> Table:
    """Return a table with a row per kernel and architecture."""
    result = Table(box=None, header_style="bold", pad_edge=False)
    result.add_column("kernel")
    for title in ("capability", "registers", "shared B", "local B", "spilled B", "main loop"):
        result.add_column(title, justify="right")
    result.add_column("per")
    before = None
    for kernel, capability, code in found:
        spilled = f"[bold red]{code.spill_bytes}[/]" if kernel.tuned and code.spill_bytes else str(code.spill_bytes)
        result.add_row(
            kernel.name if kernel.name != before else "",
            "{}.{}".format(*capability),
            str(code.registers),
            f"{code.shared_bytes:,}",
            str(code.stack_bytes),
            spilled,
            f"{len(code.loop)} instr." if code.loop else "none",
            kernel.unit if code.loop else "",
        )
        before = kernel.name
    return result


if __name__ == "__main__":
    sys.exit(main())
