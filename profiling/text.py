"""Parts of messages: suggestions for an unknown name, and sizes with units."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SYNONYMS = {
    **dict.fromkeys(("fp64", "f64", "double"), "float64"),
    **dict.fromkeys(("fp32", "f32", "single", "float"), "float32"),
    **dict.fromkeys(("fp16", "f16", "half"), "float16"),
    **dict.fromkeys(("bf16",), "bfloat16"),
    **dict.fromkeys(("cuda", "nvidia", "rocm", "amd"), "gpu"),
    **dict.fromkeys(("pytorch",), "torch"),
    **dict.fromkeys(("tf",), "tensorflow"),
}
"""Words of other tools, by their names here."""


def suggest(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the most similar known name, or all known names."""
    names = list(known)
    return did_you_mean(word, names) or f"; available: {', '.join(names)}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the most similar known name, or an empty text."""
    names = {name.casefold(): name for name in known}
    if (meant := SYNONYMS.get(word.casefold())) in names:
        return f": did you mean {meant!r}?"
    close = difflib.get_close_matches(word.casefold(), names, n=1)
    return f": did you mean {names[close[0]]!r}?" if close else ""


def format_bytes(count: float) -> str:
    """Format a size with three significant digits and a binary unit: `5.71 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if count < 1024:
            return f"{count:.3g} {unit}" if count < 1000 else f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:,.3g} EiB" if count < 1000 else f"{count:,.0f} EiB"
