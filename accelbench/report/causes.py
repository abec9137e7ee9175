"""Causes of flags: equal sentences of several results are merged, and their numbers become ranges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from accelbench.report.rows import Row

NOISY = "noisy"
"""Flag of a noisy result."""
BOUND = "bound"
"""Flag of a bound."""
NOISY_MARK = "~"
"""Prefix of a noisy result."""
_NUMBER = re.compile(r"(?<![\w.-])\d+(?:\.\d+)?")


@dataclass(frozen=True)
class FlagCause:
    """Cause of flags, with the affected points."""

    word: str
    """Flag."""
    sentence: str
    """Reason, with numbers as ranges over the results: `other processes used 0.6–0.9 of 2 CPUs`."""
    rows: tuple[Row, ...]
    """Flagged results."""


def causes(rows: Iterable[Row]) -> list[FlagCause]:
    """Return the causes of all flags, grouped by flag, the most frequent first."""
    found: dict[str, dict[str, list[tuple[Row, int | None, str]]]] = {}
    for row in rows:
        for flag in row.flags:
            for number, sentence in _sentences(row) if flag.word == NOISY else [(None, flag.meaning)]:
                alike = found.setdefault(flag.word, {}).setdefault(_NUMBER.sub("#", sentence), [])
                alike.append((row, number, sentence))
    each = [_cause(word, alike) for word, by_template in found.items() for alike in by_template.values()]
    return sorted(each, key=lambda cause: ([*found].index(cause.word), -len(cause.rows)))


def _sentences(row: Row) -> Sequence[tuple[int | None, str]]:
    """Return the repetition and the sentence of each cause of noise."""
    of_rounds = [(part.number, sentence) for part in row.record.rounds for sentence in part.noise]
    return of_rounds or [(None, sentence) for sentence in row.record.noise]


def _cause(word: str, alike: Sequence[tuple[Row, int | None, str]]) -> FlagCause:
    rows = {id(row): row for row, _, _ in alike}
    hit = {number for _, number, _ in alike if number is not None}
    all_rounds = {part.number for row in rows.values() for part in row.record.rounds}
    *others, last = map(str, sorted(hit)) if hit and hit < all_rounds else [""]
    where = f" in repetitions {', '.join(others)} and {last}" if others else f" in repetition {last}" if last else ""
    return FlagCause(word, _with_ranges([sentence for _, _, sentence in alike]) + where, tuple(rows.values()))


def _with_ranges(sentences: Sequence[str]) -> str:
    """Merge sentences that differ only in their numbers."""
    numbers = zip(*(_NUMBER.findall(sentence) for sentence in sentences), strict=True)
    ranges = ((min(each, key=float), max(each, key=float)) for each in numbers)
    texts = (low if float(low) == float(high) else f"{low}–{high}" for low, high in ranges)
    return _NUMBER.sub(lambda _: next(texts), sentences[0])
