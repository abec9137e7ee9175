"""Sizes in words; it imports nothing, for GPU kernels are compiled where little else is installed."""

from __future__ import annotations


def format_bytes(count: float) -> str:
    """Return the size with three digits and a binary unit, as memory is sold: `5.71 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if count < 1024:
            return f"{count:.3g} {unit}" if count < 1000 else f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:,.3g} EiB" if count < 1000 else f"{count:,.0f} EiB"
