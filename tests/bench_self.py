"""The suite's own figures: against an independent tool in the same minutes, start-up, harness share, memory.

Run by `make bench-self`. Machines are shared and noisy: every comparison is a ratio of neighbours in time, repeated in
rounds, and shown with its range. likwid-bench (Debian: apt install likwid) is the independent tool.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

ROUNDS = 3
STARTS = 10
REPORT_WIDTH = 120
RUNNER_MEMORY_LIMIT = 200e6
Ratios = dict[str, list[float]]


@dataclass
class Bound:
    """One bound of the suite on itself: its ratios or figures, and what they must reach."""

    name: str
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    found: list[float] = field(default_factory=list)

    def verdict(self) -> str:
        middle = statistics.median(self.found)
        low = self.at_least is None or middle >= self.at_least
        high = self.at_most is None or middle <= self.at_most
        return "[green]held[/green]" if low and high else "[bold red]missed[/bold red]"

    def limit(self) -> str:
        parts = [f"≥ {self.at_least:g}"] if self.at_least is not None else []
        parts += [f"≤ {self.at_most:g}"] if self.at_most is not None else []
        return " and ".join(parts) or "shown only"


def main() -> int:
    """Measure and print every bound; the exit status is 1 if one was missed."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else REPORT_WIDTH)
    bounds = [*against_likwid(console), *start_up(console), *quick_suite(console)]
    table = Table("bound", "median", "range", "must be", "", box=None, header_style="bold")
    for bound in bounds:
        if bound.found:
            spread = f"{min(bound.found):.3g} – {max(bound.found):.3g}"
            table.add_row(
                bound.name,
                f"{statistics.median(bound.found):.3g} {bound.unit}",
                spread,
                bound.limit(),
                bound.verdict(),
            )
    console.print(table)
    return int(any("missed" in bound.verdict() for bound in bounds if bound.found))


def accelbench(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "accelbench", *arguments]


def rates(*arguments: str) -> dict[str, float]:
    """Work per second of each point of one run, by the point's parameters."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = accelbench("run", *arguments, "--device", "cpu", "--no-ceilings", "--out", str(out))
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return {name(record): rate(record) for record in read(out)}


def read(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "records.jsonl").read_text(encoding="utf-8").splitlines()]


def name(record: dict[str, Any]) -> str:
    return " ".join([record["benchmark"], *map(str, record["params"].values())])


def rate(record: dict[str, Any]) -> float:
    return float(record["work"][record["figure"]] / record["timing"]["summary"]["median"])


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


def start_up(console: Console) -> list[Bound]:
    """Wall time of the commands that must answer at once."""
    console.print("start-up")
    bounds = []
    for arguments in (("list",), ("--help",)):
        bound = Bound(f"accelbench {arguments[0]}", "s", at_most=0.5)
        for _ in range(STARTS):
            begin = perf_counter()
            subprocess.run(accelbench(*arguments), check=True, stdout=subprocess.DEVNULL)
            bound.found.append(perf_counter() - begin)
        bounds.append(bound)
    return bounds


def quick_suite(console: Console) -> list[Bound]:
    """Wall time, harness share and the runner's peak memory of suite quick."""
    console.print("suite quick")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        begin = perf_counter()
        command = accelbench("run", "--suite", "quick", "--device", "cpu", "--out", str(out))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            peak = max(peak, runner_memory(process.pid))
            sleep(0.2)
        wall = perf_counter() - begin
        if process.returncode != 0:
            raise RuntimeError(f"suite quick ended with status {process.returncode}")
        used = sum(sum(record["phases"].values()) for record in read(out))
    return [
        Bound("suite quick, wall time", "min", at_most=8, found=[wall / 60]),
        Bound("suite quick, the harness's own share", "", at_most=0.05, found=[1 - used / wall]),
        Bound("suite quick, the runner's peak memory", "MB", at_most=RUNNER_MEMORY_LIMIT / 1e6, found=[peak / 1e6]),
    ]


def runner_memory(pid: int) -> int:
    """Resident bytes of that one process, its workers not counted; 0 once it has ended."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


if __name__ == "__main__":
    sys.exit(main())
