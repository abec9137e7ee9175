"""What a user probably meant by a word that names nothing."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggest(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about the word: the name that it is near to, or all names there are."""
    names = list(known)
    return did_you_mean(word, names) or f"; there is: {', '.join(names)}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about the word: the name that it is near to, in large or small letters, or none."""
    names = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), names, n=1)
    return f": did you mean {names[close[0]]!r}?" if close else ""
