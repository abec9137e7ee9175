"""Our ceilings beside likwid-bench's (Debian: apt install likwid), and our matrix product beside our ceilings."""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess

import psutil
from rich.console import Console

from tests.bench_self.bounds import ROUNDS, Bound, rates


def likwid(test: str, workgroup: str) -> float:
    """FLOP/s or byte/s as likwid-bench counts them."""
    output = subprocess.run(["likwid-bench", "-t", test, "-W", workgroup], capture_output=True, text=True, check=True)
    unit = "MFlops/s" if "peakflops" in test else "MByte/s"
    found = re.search(rf"^{unit}:\s+([\d.]+)", output.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"likwid-bench printed no rate for {test}: {output.stdout}{output.stderr}")
    return float(found[1]) * 1e6


def against_likwid(console: Console) -> list[Bound]:
    """Our ceilings beside likwid-bench's, and our matmul beside our ceilings."""
    cores = len(psutil.Process().cpu_affinity())
    bounds = {
        "fp64 one": Bound("FMA ceiling, float64, one core ÷ likwid", "×", 0.95, 1.05),
        "fp32 one": Bound("FMA ceiling, float32, one core ÷ likwid", "×", 0.95, 1.05),
        "fp64 all": Bound("FMA ceiling, float64, all cores ÷ likwid", "×", 0.95, 1.05),
        "fp32 all": Bound("FMA ceiling, float32, all cores ÷ likwid", "×", 0.95, 1.05),
        "triad": Bound("triad ÷ likwid stream_avx_fma", "×", 0.95),
        "triad nt": Bound("triad ÷ likwid stream_mem_avx_fma (non-temporal)", "×"),
        "vendor": Bound("vendor matmul float32 n=2048 ÷ FMA ceiling", "×", 0.85),
        "numba": Bound("Numba matmul float32 n=2048 ÷ FMA ceiling", "×", 0.50),
    }
    independent = shutil.which("likwid-bench")
    if independent is None:
        console.print("likwid-bench is not installed (Debian: apt install likwid): its comparisons are left out")
    for turn in range(ROUNDS):
        console.print(f"round {turn + 1} of {ROUNDS}: kernels" + (" and likwid-bench" if independent else ""))
        ceiling = rates("peak-arith", "--max-seconds", "1")
        if independent:
            for dtype, bits, test in (
                ("float64", "fp64", "peakflops_avx_fma"),
                ("float32", "fp32", "peakflops_sp_avx_fma"),
            ):
                for scope, threads in (("one", 1), ("all", cores)):
                    # Its 20 kB are shared by the threads of the work group.
                    ours = ceiling[f"peak-arith {dtype} {scope}"]
                    bounds[f"{bits} {scope}"].found.append(ours / likwid(test, f"N:{20 * threads}kB:{threads}"))
        stream = rates("stream", "--param", "op=triad", "--param", "dtype=float64", "--max-seconds", "2")
        triad = next(iter(stream.values()))
        if independent:
            bounds["triad"].found.append(triad / likwid("stream_avx_fma", f"N:512MB:{cores}"))
            bounds["triad nt"].found.append(triad / likwid("stream_mem_avx_fma", f"N:512MB:{cores}"))
        matmul = rates("matmul", "--param", "dtype=float32", "--param", "n=2048", "--max-seconds", "2")
        after = rates("peak-arith", "--param", "dtype=float32", "--param", "cores=all", "--max-seconds", "1")
        beside = statistics.mean([ceiling["peak-arith float32 all"], after["peak-arith float32 all"]])
        for impl in ("vendor", "numba"):
            bounds[impl].found.append(matmul[f"matmul {impl} float32 2048"] / beside)
    return list(bounds.values())
