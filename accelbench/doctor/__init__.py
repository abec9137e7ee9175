"""Checks of this machine: devices, software and sources of noise, each with the command that fixes a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.doctor.check import Check
from accelbench.doctor.gpu import check_toolkit, merge_trials, try_gpu
from accelbench.doctor.machine import (
    check_affinity,
    check_cards,
    check_devices,
    check_frameworks,
    check_governor,
    check_huge_pages,
    check_load,
    check_memory_limit,
    check_quota,
    check_session,
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
from accelbench.doctor.quiet import check_boost, check_smt, noise_trials
from accelbench.export.document import Column, DocumentRow, ResultDocument
from accelbench.output.format import counted
from accelbench.profiling.text import format_bytes

if TYPE_CHECKING:
    from rich.console import Console

    from accelbench.profiling.records.environment import Environment


def checks(root: Path = Path("/"), runs: Path = Path("runs")) -> list[Check]:
    """Return all checks that apply to this machine; `root` contains `proc`, `sys` and `dev`."""
    one_each: tuple[Callable[[Path], Check | None], ...] = (
        *(check_governor, check_boost, check_smt, check_quota, check_affinity, check_threads, check_load),
        *(check_memory_limit, check_huge_pages, check_swap, check_shared_memory),
        *(check_ptrace, check_gpu_counters),
    )
    found = [check(root) for check in one_each]
    return [
        *check_devices(root),
        *check_cards(),
        *check_nvml(root),
        *check_cupti(root),
        *filter(None, [check_toolkit(root)]),
        *check_frameworks(root),
        *(check for check in found if check),
        check_session(),
        *(check_home(), check_cache(), check_temporary(), check_runs(runs)),
    ]


def trials() -> Iterator[Check]:
    """Yield the checks that run a trial of some seconds each."""
    yield from noise_trials()
    yield try_py_spy()
    yield try_plugin()
    yield from try_gpu()


def examine(found: Sequence[Check]) -> list[Check]:
    """Run the trials and return all checks; a GPU is usable only if the trials of its libraries succeeded."""
    return merge_trials(found, list(trials()))


def render_doctor(environment: Environment, found: list[Check], console: Console) -> None:
    """Print the machine and the checks, then run the trials and print their results, unknown facts and a summary."""
    from rich.text import Text

    from accelbench.export.terminal import table_of

    for name, fact in describe(environment):
        console.print(Text.assemble((f"{name:9}", "bold"), fact))
    console.print()
    console.print(table_of(document_of_checks(environment, found)))
    console.print(Text("trying profilers, libraries of GPUs, and the noise (up to half a minute)", style="dim"))
    everything = examine(found)
    console.print(table_of(document_of_checks(environment, [check for check in everything if check not in found])))
    for fact, reason in environment.unknown.items():
        console.print(Text(f"unknown: {fact}: {reason}", style="dim"))
    console.print()
    console.print(summary(everything))


def summary(found: Sequence[Check]) -> str:
    """Return the numbers and names of warnings and missing items as a sentence."""
    warnings, missing = ([check.name for check in found if check.status == word] for word in ("warn", "missing"))
    parts = [f"{counted(len(warnings), 'warning')} ({', '.join(warnings)})"] if warnings else []
    parts += [f"{len(missing)} missing ({', '.join(missing)})"] if missing else []
    return f"{'; '.join(parts)}." if parts else "No problem found."


def describe(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield the description of the machine as pairs of name and fact."""
    processor, main_memory, software_facts = environment.cpu, environment.memory, environment.software
    sockets = f"{processor.sockets} × " if processor.sockets and processor.sockets > 1 else ""
    cores = f"{processor.cores} cores, " if processor.cores else ""
    yield "CPU", f"{sockets}{processor.model or processor.architecture}, {cores}{processor.logical} logical CPUs"
    yield "", " ".join(processor.isa)
    for kind in processor.kinds:
        clock = f", up to {kind.frequency_mhz:,.0f} MHz" if kind.frequency_mhz else ""
        one = " (one-core points)" if kind.name == processor.one_core_kind else ""
        yield "", f"{kind.cores or len(kind.cpus)} × {kind.name}{clock}{one}"
    for cache in processor.caches:
        if cache.kind != "Instruction":
            yield "", f"L{cache.level} {format_bytes(cache.size_bytes)} for {cache.shared_by} logical CPUs"
    yield "memory", f"{format_bytes(main_memory.total_bytes)}, {format_bytes(main_memory.available_bytes)} available"
    context = [environment.system.container, environment.system.scheduler, environment.system.runtime]
    yield "system", ", ".join(filter(None, [environment.system.os, f"kernel {environment.system.kernel}", *context]))
    for gpu in environment.gpus:
        size = f", {format_bytes(gpu.memory_bytes)}" if gpu.memory_bytes else ""
        capability = f", compute capability {gpu.compute_capability}" if gpu.compute_capability else ""
        yield "GPU", f"{gpu.index}: {gpu.name}{size}, vendor {gpu.vendor}{capability}"
    if environment.cuda:
        yield (
            "CUDA",
            f"driver {environment.cuda.driver or 'of unknown version'}, supports CUDA {environment.cuda.driver_cuda}",
        )
    libraries = ", ".join(f"{name} {version}" for name, version in software_facts.libraries.items())
    yield "software", f"Python {software_facts.python}, {libraries}"
    yield "BLAS", software_facts.blas or "unknown"


def document_of_checks(environment: Environment, checks: Sequence[Check]) -> ResultDocument:
    """Return the machine and the checks as a document; a missing item has the status failed."""
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
        Column("check", ("{name}",)),
        Column("found", ("{found}",)),
        Column("advice", ("{advice}",), below=("effect: {cost}",)),
    )
    return ResultDocument("doctor", {"machine": machine, "unknown": environment.unknown}, rows, columns=columns)
