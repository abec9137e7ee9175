"""The state of this machine, what stands in the way of good measurements, and the command or flag that mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.doctor.check import Check
from accelbench.doctor.gpu import check_toolkit, settle, try_gpu
from accelbench.doctor.machine import (
    check_affinity,
    check_devices,
    check_frameworks,
    check_governor,
    check_huge_pages,
    check_load,
    check_memory_limit,
    check_persistence,
    check_quota,
    check_shared_memory,
    check_swap,
    check_threads,
)
from accelbench.doctor.places import check_cache, check_home, check_runs, check_temporary
from accelbench.doctor.profiling import (
    check_cupti,
    check_gpu_counters,
    check_nvml,
    check_ptrace,
    try_plugin,
    try_py_spy,
)
from accelbench.doctor.quiet import check_boost, check_smt, trials_of_quiet
from accelbench.export.document import Column, DocumentRow, ResultDocument
from accelbench.profiling.text import format_bytes

if TYPE_CHECKING:
    from rich.console import Console

    from accelbench.profiling.records.environment import Environment


def checks(root: Path = Path("/"), runs: Path = Path("runs")) -> list[Check]:
    """Look at everything that applies to this machine; `root` is where `/proc`, `/sys` and `/dev` are."""
    one_each: tuple[Callable[[Path], Check | None], ...] = (
        *(check_governor, check_boost, check_smt, check_quota, check_affinity, check_threads, check_load),
        *(check_memory_limit, check_huge_pages, check_swap, check_shared_memory),
        *(check_ptrace, check_gpu_counters),
    )
    found = [check(root) for check in one_each]
    return [
        *check_devices(root),
        *check_persistence(),
        *check_nvml(root),
        *check_cupti(root),
        *filter(None, [check_toolkit(root)]),
        *check_frameworks(root),
        *(check for check in found if check),
        *(check_home(), check_cache(), check_temporary(), check_runs(runs)),
    ]


def trials() -> Iterator[Check]:
    """Yield the checks that need something to be tried, each within seconds."""
    yield from trials_of_quiet()
    yield try_py_spy()
    yield try_plugin()
    yield from try_gpu()


def examine(runs: Path) -> list[Check]:
    """Look and try: a GPU can be used only if what measures on it was seen to run."""
    return settle(checks(runs=runs), list(trials()))


def render_doctor(environment: Environment, checks: list[Check], console: Console) -> None:
    """Print the machine, the checks with their remedies, and what could not be known."""
    from rich.text import Text

    from accelbench.export.terminal import table_of

    for name, fact in describe(environment):
        console.print(Text.assemble((f"{name:9}", "bold"), fact))
    console.print()
    console.print(table_of(document_of_checks(environment, checks)))
    if environment.unknown:
        console.print()
        for fact, reason in environment.unknown.items():
            console.print(Text(f"unknown: {fact}: {reason}", style="dim"))


def describe(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield the machine in a few lines: name and fact."""
    processor, main_memory, software_facts = environment.cpu, environment.memory, environment.software
    sockets = f"{processor.sockets} × " if processor.sockets and processor.sockets > 1 else ""
    cores = f"{processor.cores} cores, " if processor.cores else ""
    yield "CPU", f"{sockets}{processor.model or processor.architecture}, {cores}{processor.logical} logical CPUs"
    yield "", " ".join(processor.isa)
    for cache in processor.caches:
        if cache.kind != "Instruction":
            yield "", f"L{cache.level} {format_bytes(cache.size_bytes)} for {cache.shared_by} logical CPUs"
    yield "memory", f"{format_bytes(main_memory.total_bytes)}, {format_bytes(main_memory.available_bytes)} available"
    around = [environment.system.container, environment.system.scheduler, environment.system.runtime]
    yield "system", ", ".join(filter(None, [environment.system.os, f"kernel {environment.system.kernel}", *around]))
    for gpu in environment.gpus:
        size = f", {format_bytes(gpu.memory_bytes)}" if gpu.memory_bytes else ""
        capability = f", compute capability {gpu.compute_capability}" if gpu.compute_capability else ""
        yield "GPU", f"{gpu.index}: {gpu.name}{size}, vendor {gpu.vendor}{capability}"
    if environment.cuda:
        yield (
            "CUDA",
            f"driver {environment.cuda.driver or 'of unknown version'}, serves CUDA {environment.cuda.driver_cuda}",
        )
    libraries = ", ".join(f"{name} {version}" for name, version in software_facts.libraries.items())
    yield "software", f"Python {software_facts.python}, {libraries}"
    yield "BLAS", software_facts.blas or "unknown"


def document_of_checks(environment: Environment, checks: Sequence[Check]) -> ResultDocument:
    """Return the machine, and each thing that was looked at; what is missing has failed."""
    machine: dict[str, list[str]] = {}
    name = ""
    for heading, fact in describe(environment):
        name = heading or name
        machine.setdefault(name, []).append(fact)
    rows = [
        DocumentRow(
            check.name,
            {"status": check.status, "found": check.found, "advice": check.advice, "cost": check.cost},
            "failed" if check.status == "missing" else "passed",
            "" if check.status == "ok" else check.found,
        )
        for check in checks
    ]
    columns = (
        Column("", ("{status}",), whole=True),
        Column("looked at", ("{name}",)),
        Column("found", ("{found}",)),
        Column("what to do", ("{advice}",), below=("as it is: {cost}",)),
    )
    return ResultDocument("doctor", {"machine": machine, "unknown": environment.unknown}, rows, columns=columns)
