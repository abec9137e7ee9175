"""What a person wants to know first of a run: how fast the machine is, what holds it back, and can it be believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accelbench.output.format import counted, percent, read
from accelbench.profiling.analysis.roofline import CONTRADICTED
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import UNITS, Bounded
from accelbench.report.bottleneck_text import bottleneck_text
from accelbench.report.causes import NOISY, NOISY_MARK
from accelbench.report.rows import Row
from accelbench.report.stored_run import ConfidenceLight, Run

FIRST_TYPES = ("float32", "float64", "bfloat16", "float16")
"""The types whose arithmetic is told first."""
TYPES_TOLD, TRAININGS_TOLD, OTHERS_TOLD = 3, 3, 2
"""The most types, trainings, and other kernels that the first sentence tells of one device."""
CAUSES_TOLD = 3
"""The most causes of noise that are named."""
NEAR = 0.8
"""The share of a ceiling from which on a kernel is near to it."""


@dataclass(frozen=True)
class RunSummary:
    """Summary of a run: speed, bottleneck and confidence."""

    how_fast: str
    holds_back: str
    believe: str
    light: ConfidenceLight

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """Return each question with its answer."""
        return (
            ("How fast is it?", self.how_fast),
            ("What holds it back?", self.holds_back),
            ("Can I believe it?", self.believe),
        )


def answer(run: Run) -> RunSummary | None:
    """Return the answers of a run; None where nothing was measured."""
    if not run.rows:
        return None
    return RunSummary(_how_fast(run.rows), " ".join(_holds_back(run.rows)), " ".join(_believe(run)), run.light)


def _how_fast(rows: Sequence[Row]) -> str:
    """Return the best rates of arithmetic and of memory of each device, and those of trainings and of other work."""
    devices = dict.fromkeys(row.record.point.device for row in rows)
    return " ".join(_of_device(device, [r for r in rows if r.record.point.device == device]) for device in devices)


def _of_device(device: str, rows: Sequence[Row]) -> str:
    kernels = [row for row in rows if not row.training]
    bounded = [row for row in kernels if row.record.bound.cores == "all"]
    types = sorted({str(row.record.bound.dtype) for row in bounded if row.record.bound.figure == "flops"}, key=_rank)
    computed = [(_fastest(bounded, "flops", dtype), f" in {dtype}") for dtype in types[:TYPES_TOLD]]
    moved = [(_fastest(bounded, "bytes", None), " of memory")]
    reached = [f"{_rate(row)}{of}" for row, of in computed + moved if row]
    trained = [f"{name} trains {_rate(row)}" for name, row in _best_by_name(rows, True).items()]
    unbounded = [row for row in kernels if row.record.figure == "items"]
    others = [f"{name} does {_rate(row)}" for name, row in _best_by_name(unbounded, False).items()]
    first = [f"{device.upper()}: {' and '.join([', '.join(reached[:-1])] * (len(reached) > 1) + reached[-1:])}"]
    parts = first * bool(reached) + trained[:TRAININGS_TOLD] + others[:OTHERS_TOLD]
    if not parts:
        return f"{device.upper()}: the tables below have {counted(len(rows), 'figure')}."
    return f"{'; '.join(parts)}."


def _rank(dtype: str) -> tuple[int, str]:
    return FIRST_TYPES.index(dtype) if dtype in FIRST_TYPES else len(FIRST_TYPES), dtype


def _fastest(rows: Sequence[Row], figure: Bounded, dtype: str | None) -> Row | None:
    """Return the row with the highest rate of such work; one that was not disturbed is preferred if it is near."""

    def rate(row: Row) -> float:
        return row.record.rate(figure) or 0.0

    wanted = [row for row in rows if (row.record.bound.figure, row.record.bound.dtype) == (figure, dtype)]
    highest = max(map(rate, wanted), default=0.0)
    near = [row for row in wanted if rate(row) and rate(row) * CONTRADICTED >= highest]
    return max(near, key=lambda row: (not row.disturbed, rate(row)), default=None)


def _best_by_name(rows: Sequence[Row], trained: bool) -> dict[str, Row]:
    """Return the row with the highest rate of each benchmark and backend, of trainings or of all others."""
    found: dict[str, Row] = {}
    for row in rows:
        if row.training is trained and row.record.rate():
            point = row.record.point
            name = f"{point.benchmark} on {point.backend}" if point.backend else point.benchmark
            if name not in found or (row.record.rate() or 0) > (found[name].record.rate() or 0):
                found[name] = row
    return found


def _rate(row: Row) -> str:
    """Return the row's rate without its interval; of a bounded kernel the rate of the figure that bounds it."""
    figure, mark = row.record.bound.figure, NOISY_MARK * bool(row.disturbed)
    if row.record.point.backend or figure is None:
        return mark + row.reading.figure
    return mark + read(row.record.rate(figure) or 0.0, UNITS[figure]).figure


def _holds_back(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what bounds the trainings, and how near the kernels come to their ceilings."""
    trainings = [row.record for row in rows if row.training]
    by_verdict: dict[str | None, list[Record]] = {}
    for record in trainings:
        by_verdict.setdefault(bottleneck_text(record.profile) if record.profile else None, []).append(record)
    for bound, those in sorted(by_verdict.items(), key=lambda item: -len(item[1])):
        yield _bounded(bound, those, len(trainings))
    beside = [row for row in rows if not row.training and not row.sets_ceiling]
    known = [(row.of_ceiling.value, row) for row in beside if row.of_ceiling.value is not None]
    if known:
        least, row = min(known, key=lambda each: each[0])
        near = sum(share >= NEAR for share, _ in known)
        reach = f"{near} of {len(known)} kernels reach{'es' * (near == 1)}"
        of = f"{reach} {percent(NEAR)} or more of the measured ceiling"
        name = f"{row.record.point.benchmark} {row.point}".strip()
        yield f"{of}; the furthest below it is {name}, with {percent(least)}."
    elif not trainings:
        reason = next((row.of_ceiling.reason for row in rows if row.of_ceiling.reason), "")
        if any(row.of_ceiling.noisy for row in rows):
            reason = "the measured ceilings are noisy"
        yield f"No share of a ceiling is known{': ' * bool(reason)}{reason}."


def _bounded(bound: str | None, those: Sequence[Record], trainings: int) -> str:
    """Return what bounds these of so many trainings, and what would help; or that nobody knows, and why."""
    which = those[0].point.benchmark if trainings == 1 else f"{len(those)} of {trainings} trainings"
    profile = those[0].profile
    if profile is None:
        return f"What bounds {which} was not profiled."
    found = profile.bottleneck
    if found.bound is None:
        return f"The bottleneck of {which} is unknown: {found.reason or 'no reason was recorded'}."
    helped = f": what would help is {found.help}" if found.help else ""
    return f"{which} {'are' if len(those) > 1 else 'is'} {bound}{helped}."


def _believe(run: Run) -> Iterator[str]:
    """Yield whether figures may be other ones tomorrow."""
    counts = run.counts
    if counts.failed:
        yield f"Not all: {counted(counts.failed, 'point')} failed, and have no figure."
    if counts.disturbed:
        are = "is" if counts.disturbed == 1 else "are"
        reasons = "; ".join(_reasons(run))
        yield f"Low confidence: {counts.disturbed} of {counts.measured} results {are} noisy: {reasons}."
        yield "Repeat them on a quieter machine (see 'accelbench doctor')."
    elif not counts.failed:
        alone = sum(len(row.record.rounds) <= 1 for row in run.rows)
        whole = f"Yes: nothing was seen to disturb {counted(counts.measured, 'point')}, and every answer was verified."
        rest = f"{alone} figure{'s rest' if alone > 1 else ' rests'} on one process"
        yield whole if not alone else f"{whole} {rest}: a fresh one may differ by some per cent."
    if run.ceilings_from:
        yield f"T{run.ceilings_from[1:]}."


def _reasons(run: Run) -> Iterator[str]:
    """Yield what disturbed the results, each cause with their number where it did not disturb all the noisy ones."""
    found = [cause for cause in run.causes if cause.word == NOISY]
    courses = Counter(row.course.kind for row in run.rows if row.course.kind != "steady")
    for reason, count in [*((cause.sentence, len(cause.rows)) for cause in found[:CAUSES_TOLD]), *courses.items()]:
        yield reason if count == run.counts.disturbed else f"{reason} ({counted(count, 'result')})"
    if (more := len(found) - CAUSES_TOLD) > 0:
        yield f"{more} more causes" if more > 1 else "1 more cause"
