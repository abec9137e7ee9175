"""The terminal tables that are not a run's: vendors' peaks, and data sets."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from accelbench.errors import UserError
from profiling.peaks import cards
from workloads.datasets import SOURCES


def render_peaks(console: Console, part: str = "") -> None:
    """Print every card whose title contains `part`, a line per dtype and unit; UserError if there is none."""
    chosen = [card for card in cards() if part.lower() in card.title.lower()]
    if not chosen:
        raise UserError(f"no card's name contains {part!r}: 'accelbench peaks' lists them all")
    for card in chosen:
        clock = f" at {card.clock_mhz:.0f} MHz" if card.clock_mhz else ""
        console.print(f"[bold]{card.title}[/bold]{clock}\n[dim]{card.source}[/dim]", soft_wrap=True)
        for dtype, units in card.flops.items():
            for unit, value in units.items():
                console.print(f"  {dtype:10} {unit:8} {value / 1e12:10,.2f} TFLOP/s")
        if card.bandwidth:
            console.print(f"  {'':10} {'memory':8} {card.bandwidth / 1e9:10,.0f} GB/s")
        console.print()


def render_data(console: Console) -> None:
    """Print every data set that can be fetched, and whether it is here."""
    table = Table("data set", "size", "licence", "here", "without it", box=None, pad_edge=False, header_style="bold")
    for source in SOURCES.values():
        here = str(source.path) if source.present else "no"
        table.add_row(source.name, f"{source.size / 1e6:.1f} MB", source.licence, here, source.offline)
    console.print(table)
