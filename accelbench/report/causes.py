"""Causes of flags: equal sentences of several results are merged, and their numbers become ranges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from accelbench.profiling.records.record import Record
from accelbench.report.rows import Row

NOISY = "noisy"
"""Flag of a noisy result."""
BOUND = "bound"
"""Flag of a bound."""
NOISY_MARK = "~"
"""Prefix of a noisy result."""
LONGEST_S = 1e9
"""Longest plausible measurement in seconds: 30 years."""
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
    began: datetime
    """Start of the first affected measurement."""
    ended: datetime
    """Approximate end of the last affected measurement."""

    @property
    def when(self) -> str:
        """Return the times of the affected measurements as text: `07:04–07:06 UTC`."""
        began, ended = self.began.astimezone(UTC), self.ended.astimezone(UTC)
        form = "%H:%M" if began.date() == ended.date() else "%Y-%m-%d %H:%M"
        first, last = f"{began:{form}}", f"{ended:{form}}"
        return f"{first} UTC" if first == last else f"{first}–{last} UTC"


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
    times = [time for row, number, _ in alike for time in _times(row.record, number)]
    sentence = _with_ranges([sentence for _, _, sentence in alike]) + where
    ends = max(ended for _, ended in times)
    return FlagCause(word, sentence, tuple(rows.values()), min(began for began, _ in times), ends)


def _times(record: Record, number: int | None) -> list[tuple[datetime, datetime]]:
    """Return start and end of a repetition of the record, or of all of them; each takes the same part of its time."""
    elapsed_s = record.elapsed_s / max(1, len(record.rounds))
    starts = [part.started for part in record.rounds if number in (None, part.number)] or [record.started]
    return [(started, end_of(started, elapsed_s)) for started in starts]


def end_of(started: datetime, elapsed_s: float) -> datetime:
    """Return the end of a measurement; implausibly long times, as in a foreign run, are cut."""
    return started + timedelta(seconds=min(elapsed_s, LONGEST_S))


def _with_ranges(sentences: Sequence[str]) -> str:
    """Merge sentences that differ only in their numbers."""
    numbers = zip(*(_NUMBER.findall(sentence) for sentence in sentences), strict=True)
    ranges = ((min(each, key=float), max(each, key=float)) for each in numbers)
    texts = (low if float(low) == float(high) else f"{low}–{high}" for low, high in ranges)
    return _NUMBER.sub(lambda _: next(texts), sentences[0])
