"""`make kernels-report`: the kernels' machine code, then their instruction budgets and the bounds that these predict.

Without names of kernels, only the code for compute capability 9.0 is counted, which takes minutes.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby

from rich.console import Console
from rich.progress import track
from rich.table import Table

from accelbench.kernels import report
from accelbench.kernels.lib.gpu.compilation import Capability
from tests.ptx.budgets import WARP, Bound, Budget, bounds, cases, measure
from tests.ptx.sources import HOPPER

RATES = {"kFLOP": "TFLOP/s"}
"""Unit of 10⁹ units of work per second, by the unit of work; otherwise `10⁹ elements/s`."""


def main() -> int:
    """Print the report of the machine code and the tables of budgets and bounds; return the report's status."""
    options, jobs = report.select_jobs()
    status = report.main()
    if shutil.which("g++") is None:
        print("g++ is not installed: the instructions are not counted", file=sys.stderr)
        return status
    capabilities: dict[str, list[Capability]] = {}
    for kernel, capability in jobs:
        if options.name or options.capability or capability == HOPPER:
            capabilities.setdefault(kernel.name, []).append(capability)
    selected = [(case, capability) for case in cases() for capability in capabilities.get(case.kernel, [])]
    progress = track(selected, "counting", console=Console(stderr=True), transient=True)
    budgets = [measure(case, capability) for case, capability in progress]
    if budgets:
        console = report.make_console()
        console.print("\nexecuted by the PTX interpreter, per unit of work; of warps: per 32 units")
        console.print(budget_table(budgets))
        console.print("\npredicted from these counts, not measured: no kernel is faster than the pipe that binds it")
        console.print(bound_table(budgets))
    return status


def budget_table(budgets: Sequence[Budget]) -> Table:
    """Return a table with a row per kernel and compute capability."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("kernel")
    table.add_column("unit")
    for title in (
        "capability", "thread instr.", "warp instr.", "issue slots", "wavefronts", "in conflicts", "sectors/request",
        "bytes used", "mean lanes",
    ):  # fmt: skip
        table.add_column(title, justify="right")
    before = None
    for budget in budgets:
        tally, kernel = budget.tally, budget.case.kernel
        per_warp = WARP / budget.units
        table.add_row(
            *((kernel, budget.case.unit) if kernel != before else ("", "")),
            "{}.{}".format(*budget.capability),
            f"{tally.lanes / budget.units:.2f}",
            f"{tally.issued * per_warp:.2f}",
            f"{budget.slots.total() * per_warp:.2f}",
            f"{tally.wavefronts * per_warp:.2f}",
            f"{tally.conflicts / tally.wavefronts:.0%}" if tally.wavefronts else "–",
            f"{tally.sectors / tally.requests:.1f}" if tally.requests else "–",
            f"{tally.used_bytes / (32 * tally.sectors):.0%}" if tally.sectors else "–",
            f"{tally.lanes / tally.issued:.1f}",
        )
        before = kernel
    return table


def bound_table(budgets: Sequence[Budget]) -> Table:
    """Return a table with the predicted bounds of each kernel, a row for the cards with the same bound."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("kernel")
    table.add_column("predicted at most", justify="right")
    table.add_column("bound by")
    table.add_column("card")
    by_kernel: dict[str, dict[Capability, Budget]] = {}
    for budget in budgets:
        by_kernel.setdefault(budget.case.kernel, {})[budget.capability] = budget
    for kernel, by_capability in by_kernel.items():
        first = kernel
        for (rate, pipe), titles in grouped(by_capability):
            table.add_row(first, rate, pipe, titles)
            first = ""
    return table


def grouped(budgets: Mapping[Capability, Budget]) -> list[tuple[tuple[str, str], str]]:
    """Return ((rate, pipe), titles of the cards) of one kernel, slowest cards first."""
    (unit,) = {budget.case.unit for budget in budgets.values()}

    def shown(bound: Bound) -> tuple[str, str]:
        return f"{bound.rate / 1e9:,.0f} {RATES.get(unit, f'10⁹ {unit}s/s')}", bound.pipe

    ordered = sorted(bounds(budgets), key=lambda bound: bound.rate)
    return [(key, ", ".join(bound.card.title for bound in group)) for key, group in groupby(ordered, key=shown)]


if __name__ == "__main__":
    sys.exit(main())
