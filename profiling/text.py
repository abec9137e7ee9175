"""Parts of messages: suggestions for an unknown name, and sizes with their units."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggest(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the most similar known name, or all known names."""
    names = list(known)
    return did_you_mean(word, names) or f"; there is: {', '.join(names)}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the most similar known name, or an empty text."""
    names = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), names, n=1)
    return f": did you mean {names[close[0]]!r}?" if close else ""


def format_bytes(count: float) -> str:
    """Return the size with three digits and a binary unit: `5.71 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if count < 1024:
            return f"{count:.3g} {unit}" if count < 1000 else f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:,.3g} EiB" if count < 1000 else f"{count:,.0f} EiB"
