"""Vendors' peaks as the terminal shows them."""

from __future__ import annotations

from rich.console import Console

from accelbench.errors import UserError
from profiling.machine.peaks import cards, cores


def render_peaks(console: Console, part: str = "") -> None:
    """Print every card and CPU core whose title contains `part`; UserError if there is none."""
    chosen_cards = [card for card in cards() if part.lower() in card.title.lower()]
    chosen_cores = [core for core in cores() if part.lower() in core.title.lower()]
    if not chosen_cards and not chosen_cores:
        raise UserError(f"no card's or CPU core's name contains {part!r}: 'accelbench peaks' lists them all")
    for card in chosen_cards:
        _print_title(console, card.title, card.source)
        for dtype, units in card.flops.items():
            for unit, value in units.items():
                clock = card.clocks.get(dtype, {}).get(unit, card.clock_mhz)
                at = f"  at {clock:.0f} MHz" if clock else ""
                console.print(f"  {dtype:10} {unit:8} {value / 1e12:10,.2f} TFLOP/s{at}")
        if card.bandwidth:
            console.print(f"  {'':10} {'memory':8} {card.bandwidth / 1e9:10,.0f} GB/s")
        console.print()
    for core in chosen_cores:
        _print_title(console, core.title, core.source)
        for dtype, per_cycle in core.flops_per_cycle.items():
            console.print(f"  {dtype:10} {'core':8} {per_cycle:10} FLOP per cycle")
        console.print()


def _print_title(console: Console, title: str, source: str) -> None:
    console.print(f"[bold]{title}[/bold]\n[dim]{source}[/dim]", soft_wrap=True)
