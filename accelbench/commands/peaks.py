"""Command `peaks`: vendor peaks with their sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from accelbench.commands import console
from accelbench.errors import UserError

if TYPE_CHECKING:
    from accelbench.profiling.machine.vendor_peaks import CardPeaks, CorePeaks, MultiChipBoard


@click.command()
@click.argument("card", default="")
def command(card: str) -> None:
    """Show the vendors' peak rates with their sources, of all GPUs and CPU cores or those with CARD in the name.

    The devices of this machine are listed first.
    """
    from rich.text import Text

    from accelbench.output.console import HangingText
    from accelbench.profiling.machine import vendor_peaks as peaks
    from accelbench.profiling.machine.environment.collect import collect

    cards = [each for each in peaks.cards() if card.lower() in each.title.lower()]
    cores = [each for each in peaks.cores() if card.lower() in each.title.lower()]
    if not cards and not cores:
        raise UserError(f"no GPU or CPU core matches {card!r}: 'accelbench peaks' lists all")
    output, here = console(), collect()
    own_cards = {each.title for gpu in here.gpus if (each := peaks.find_card(gpu.name))}
    own_cores = [peaks.find_core(here.cpu, kind) for kind in here.cpu.kinds] or [peaks.find_core(here.cpu)]
    have_some = any(core in own_cores for core in cores) or any(each.title in own_cards for each in cards)
    for mine in (True, False):
        if have_some:
            output.print(Text("this machine" if mine else "others", style="bold underline"))
        shown: list[CardPeaks | MultiChipBoard | CorePeaks] = []
        for each in cards:
            if (each.title in own_cards) is mine:
                shown += [each, *filter(None, [each.board])]
        shown += [core for core in cores if (core in own_cores) is mine]
        for entry in shown:
            output.print(HangingText(Text(entry.title, style="bold")))
            output.print(HangingText(Text(entry.source, style="dim"), 2, 4))
            for line in _core(entry) if isinstance(entry, peaks.CorePeaks) else _card(entry):
                output.print(HangingText(Text(line), 0, 4))
            output.print()


def _core(core: CorePeaks) -> Iterator[str]:
    for dtype, per_cycle in core.flops_per_cycle.items():
        yield f"  {dtype:10} {'core':8} {per_cycle:10} FLOP per cycle"


def _card(of: CardPeaks | MultiChipBoard) -> Iterator[str]:
    from accelbench.profiling.machine.vendor_peaks import MultiChipBoard

    clocks = {} if isinstance(of, MultiChipBoard) else of.clocks
    for dtype, units in of.flops.items():
        for unit, value in units.items():
            clock = clocks.get(dtype, {}).get(unit, of.clock_mhz)
            at = f"  at {clock:.0f} MHz" if clock else ""
            yield f"  {dtype:10} {unit:8} {value / 1e12:10,.2f} TFLOP/s{at}"
    if of.bandwidth:
        yield f"  {'':10} {'memory':8} {of.bandwidth / 1e9:10,.0f} GB/s"
