"""Our ceilings compared with likwid-bench's (Debian: apt install likwid), and our matrix product with our ceilings.

likwid-bench has a kernel for each instruction set. The counterparts are those for the widest vectors of this CPU, and
each comparison names its kernel. Missing kernels are reported and not compared.

Both need an otherwise idle machine. Our result is the median of executions of milliseconds, with threads that the
system may move. likwid-bench returns the mean over seconds and pins its threads to CPUs, so other load slows it more.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from rich.console import Console

from accelbench.profiling.machine.environment.cpu import collect_cpu
from accelbench.profiling.machine.environment.files import read_int
from tests.bench_self.bounds import ROUNDS, Bound, rates


@dataclass(frozen=True)
class Kernels:
    """Names of likwid-bench's kernels for one instruction set."""

    fp64: str
    fp32: str
    triad: str
    triad_past_cache: str


def x86(isa: str, past_cache: str) -> Kernels:
    return Kernels(f"peakflops_{isa}", f"peakflops_sp_{isa}", f"stream_{isa}", f"stream_mem_{past_cache}")


def sve(bits: int) -> Kernels:
    return Kernels(f"peakflops_sve{bits}_fma", f"peakflops_sp_sve{bits}_fma", f"stream_sve{bits}_fma", "")


NONE = Kernels("", "", "", "")
NEON = Kernels("peakflops_neon_fma", "peakflops_sp_neon_fma", "", "")


def counterparts(isa: Collection[str], sve_bits: int = 0) -> Kernels | None:
    """Return the kernels for the widest vectors among these instruction sets (as the operating system names them).

    Returns None if likwid-bench has none. It has no AVX-512 triad with FMA and non-temporal stores, so the one without
    FMA is used.
    """
    if "avx512f" in isa:
        return x86("avx512_fma", "avx512")
    if "avx" in isa:
        return x86("avx_fma", "avx_fma") if "fma" in isa else x86("avx", "avx")
    if "sse4_2" in isa:
        return x86("sse", "sse")
    if "sve" in isa and sve_bits in (128, 256, 512):
        return sve(sve_bits)
    return NEON if "asimd" in isa else None


SVE_BYTES = Path("/proc/sys/abi/sve_default_vector_length")
"""File with the SVE vector length of this CPU in bytes."""


def available(console: Console) -> Kernels:
    """Return the counterparts in the installed likwid-bench; missing ones are empty, and reported on the console."""
    if shutil.which("likwid-bench") is None:
        console.print("likwid-bench is not installed (Debian: apt install likwid): not compared")
        return NONE
    isa = collect_cpu().isa
    wanted = counterparts(isa, 8 * (read_int(SVE_BYTES) or 0)) or NONE
    listed = subprocess.run(["likwid-bench", "-a"], capture_output=True, text=True, check=True).stdout
    names = {line.split(" - ")[0] for line in listed.splitlines()}
    found = {kind: name if name in names else "" for kind, name in asdict(wanted).items()}
    missing = ", ".join(f"{kind} ({asdict(wanted)[kind] or 'none'})" for kind, name in found.items() if not name)
    if missing:
        console.print(f"likwid-bench has no counterpart on this CPU ({', '.join(isa)}) for: {missing}")
    return Kernels(**found)


def likwid(test: str, workgroup: str, *options: str) -> float:
    """Return the FLOP/s or byte/s of a likwid-bench kernel."""
    command = ["likwid-bench", "-t", test, "-W", workgroup, *options]
    output = subprocess.run(command, capture_output=True, text=True, check=True)
    unit = "MFlops/s" if "peakflops" in test else "MByte/s"
    found = re.search(rf"^{unit}:\s+([\d.]+)", output.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"likwid-bench printed no rate for {test}: {output.stdout}{output.stderr}")
    return float(found[1]) * 1e6


def against_likwid(console: Console) -> list[Bound]:
    """Compare our ceilings with likwid-bench's, and our matmul with our ceilings."""
    cores = len(psutil.Process().cpu_affinity())
    against = available(console)
    bounds = {
        "fp64 one": Bound(f"FMA ceiling, float64, one core ÷ likwid {against.fp64}", "×", 0.95, 1.05),
        "fp32 one": Bound(f"FMA ceiling, float32, one core ÷ likwid {against.fp32}", "×", 0.95, 1.05),
        "fp64 all": Bound(f"FMA ceiling, float64, all cores ÷ likwid {against.fp64}", "×", 0.95, 1.05),
        "fp32 all": Bound(f"FMA ceiling, float32, all cores ÷ likwid {against.fp32}", "×", 0.95, 1.05),
        "triad": Bound(f"triad ÷ likwid {against.triad}", "×", 0.95),
        "triad nt": Bound(f"triad ÷ likwid {against.triad_past_cache} (non-temporal)", "×"),
        "vendor": Bound("vendor matmul float32 n=2048 ÷ FMA ceiling", "×", 0.85),
        "numba": Bound("Numba matmul float32 n=2048 ÷ FMA ceiling", "×", 0.75),
    }
    for number in range(ROUNDS):
        kernels = "kernels" if against == NONE else "kernels and likwid-bench"
        console.print(f"repetition {number + 1} of {ROUNDS}: {kernels}")
        ceiling = rates("peak-arith", "--max-seconds", "1")
        for dtype, bits, test in (("float64", "fp64", against.fp64), ("float32", "fp32", against.fp32)):
            for scope, threads in (("one", 1), ("all", cores)) if test else ():
                # likwid-bench divides the working set of a work group among its threads.
                ours = ceiling[f"peak-arith {dtype} {scope}"]
                bounds[f"{bits} {scope}"].found.append(ours / likwid(test, f"N:{20 * threads}kB:{threads}"))
        stream = rates("stream", "--param", "op=triad", "--param", "dtype=float64", "--max-seconds", "2")
        triad = next(iter(stream.values()))
        for kind, test in (("triad", against.triad), ("triad nt", against.triad_past_cache)):
            if test:
                bounds[kind].found.append(triad / likwid(test, f"N:512MB:{cores}"))
        matmul = rates("matmul", "--param", "dtype=float32", "--param", "n=2048", "--max-seconds", "2")
        after = rates("peak-arith", "--param", "dtype=float32", "--param", "cores=all", "--max-seconds", "1")
        mean = statistics.mean([ceiling["peak-arith float32 all"], after["peak-arith float32 all"]])
        for impl in ("vendor", "numba"):
            bounds[impl].found.append(matmul[f"matmul {impl} float32 2048"] / mean)
    return list(bounds.values())
