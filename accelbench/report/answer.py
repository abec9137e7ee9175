"""Summary of a run in three sentences: speed, bottleneck and confidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accelbench.output.format import counted, digits, percent, read, share
from accelbench.profiling.analysis.roofline import CONTRADICTED
from accelbench.profiling.records.work import UNITS, Bounded
from accelbench.profiling.telemetry.noise import exceeds_tolerance
from accelbench.report.bottleneck_text import advice, bottleneck_line, bottleneck_text
from accelbench.report.causes import BOUND, NOISY, NOISY_MARK
from accelbench.report.rows import Row, is_diagnosis
from accelbench.report.stored_run import ConfidenceLight, Run

FIRST_TYPES = ("float32", "float64", "bfloat16", "float16")
"""Dtypes that are listed first."""
MAX_NAMED = 4
"""Maximum number of benchmarks named on the command line that are listed."""
MAX_DTYPES, MAX_TRAININGS, MAX_OTHERS = 3, 3, 2
"""Maximum numbers of dtypes, training workloads and other kernels listed for one device."""
MAX_CAUSES = 3
"""Maximum number of causes of noise listed."""
NEAR = 0.8
"""Minimum share of a ceiling at which a kernel counts as near it."""


@dataclass(frozen=True)
class RunSummary:
    """Summary of a run: speed, bottleneck and confidence."""

    speed: str
    bottleneck: str
    confidence: str
    light: ConfidenceLight
    busy: str
    """CPUs that other processes used, as text; empty for a quiet machine."""

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """Return the headings with their texts."""
        return ("Speed", self.speed), ("Bottleneck", self.bottleneck), ("Confidence", self.confidence)


def answer(run: Run) -> RunSummary | None:
    """Return the summary of a run; None if nothing was measured."""
    if not run.rows:
        return None
    bottleneck, confidence = (" ".join(sentences) for sentences in (_bottleneck(run.rows), _confidence(run)))
    return RunSummary(_speed(run), bottleneck, confidence, run.light, busy_text(run))


def leading_row(run: Run) -> Row:
    """Return the row that stands for the speed of a run with results.

    The best result of a benchmark that the user named, else the fastest training workload, else the best share of a
    ceiling among the kernels.
    """
    if named := [row for row in run.rows if run.info.suite is None and not row.record.ceiling]:
        first = named[0].record
        return max((r for r in named if r.record.point.benchmark == first.point.benchmark), key=_signed_rate)
    if trained := [row for row in run.rows if row.training]:
        return max(trained, key=_signed_rate)
    known = shares_of_kernels(run.rows)
    return known[-1] if known else run.groups[0].best


def busy_text(run: Run) -> str:
    """Return the CPUs that other processes used during the noisy measurements, as text; empty if they used few."""
    used, total_s, most = 0.0, 0.0, 0.0
    for row in run.rows:
        counters = row.record.telemetry.counters if row.record.telemetry else {}
        other_s, wall_s = counters.get("cpu.other_s", 0.0), counters.get("wall_s", 0.0)
        if row.disturbed and wall_s > 0:
            used, total_s, most = used + other_s, total_s + wall_s, max(most, other_s / wall_s)
    cpus = run.info.environment.cpu.logical or 1
    if total_s <= 0 or not exceeds_tolerance(used / total_s, cpus):
        return ""
    return f"other processes used {digits(used / total_s, 2)} of {counted(cpus, 'CPU')} (up to {digits(most, 2)})"


def _speed(run: Run) -> str:
    """Return the best results of the run as text, benchmarks named on the command line first."""
    named = [row for row in run.rows if run.info.suite is None and not row.record.ceiling]
    rest = [row for row in run.rows if row not in named]
    names = [*dict.fromkeys(row.record.point.benchmark for row in named)][:MAX_NAMED]
    found = [_named([row for row in named if row.record.point.benchmark == name]) for name in names]
    return " ".join([*found, *[f"Ceilings: {_of_devices(rest)}" if found else _of_devices(rest)] * bool(rest)])


def _named(rows: Sequence[Row]) -> str:
    """Return the highest rate, or the shortest time, of a benchmark's results as a sentence."""
    best = max(rows, key=_signed_rate)
    of = f", {share(best.of_ceiling)} of the measured ceiling" if best.of_ceiling.shown is not None else ""
    which = f" ({best.point})" if len(rows) > 1 else ""
    return f"{best.record.point.benchmark}: {_rate(best)}{of}{which}."


def _signed_rate(row: Row) -> float:
    """Return the rate, or the negative time, so that the highest value is the best result."""
    return (row.record.rate() or 0.0) * (-1 if row.record.figure == "time" else 1)


def _of_devices(rows: Sequence[Row]) -> str:
    """Return the best rates of each device as text: arithmetic, memory, training workloads and other kernels."""
    devices = dict.fromkeys(row.record.point.device for row in rows)
    return " ".join(_of_device(device, [r for r in rows if r.record.point.device == device]) for device in devices)


def _of_device(device: str, rows: Sequence[Row]) -> str:
    kernels = [row for row in rows if not row.training]
    bounded = [row for row in kernels if row.record.bound.cores == "all"]
    types = sorted({str(row.record.bound.dtype) for row in bounded if row.record.bound.metric == "flops"}, key=_rank)
    computed = [(_fastest(bounded, "flops", dtype), f" in {dtype}") for dtype in types[:MAX_DTYPES]]
    moved = [(_fastest(bounded, "bytes", None), " of memory")]
    reached = [f"{_rate(row)}{of}" for row, of in computed + moved if row]
    trained = [f"{name} trains {_rate(row)}" for name, row in _best_by_name(rows, True).items()]
    unbounded = [row for row in kernels if row.record.figure == "items"]
    others = [f"{name} does {_rate(row)}" for name, row in _best_by_name(unbounded, False).items()]
    first = [f"{device.upper()}: {' and '.join([', '.join(reached[:-1])] * (len(reached) > 1) + reached[-1:])}"]
    parts = first * bool(reached) + trained[:MAX_TRAININGS] + others[:MAX_OTHERS]
    if not parts:
        return f"{device.upper()}: {counted(len(rows), 'result')}, see the tables."
    return f"{'; '.join(parts)}."


def _rank(dtype: str) -> tuple[int, str]:
    return FIRST_TYPES.index(dtype) if dtype in FIRST_TYPES else len(FIRST_TYPES), dtype


def _fastest(rows: Sequence[Row], metric: Bounded, dtype: str | None) -> Row | None:
    """Return the row with the highest rate of the work; a slightly slower quiet row is preferred to a noisy one."""

    def rate(row: Row) -> float:
        return row.record.rate(metric) or 0.0

    wanted = [row for row in rows if (row.record.bound.metric, row.record.bound.dtype) == (metric, dtype)]
    highest = max(map(rate, wanted), default=0.0)
    near = [row for row in wanted if rate(row) and rate(row) * CONTRADICTED >= highest]
    return max(near, key=lambda row: (not row.disturbed, rate(row)), default=None)


def _best_by_name(rows: Sequence[Row], trained: bool) -> dict[str, Row]:
    """Return the row with the highest rate of each benchmark and backend, among training workloads or kernels."""
    found: dict[str, Row] = {}
    for row in rows:
        if row.training is trained and row.record.rate():
            point = row.record.point
            name = f"{point.benchmark} on {point.backend}" if point.backend else point.benchmark
            if name not in found or (row.record.rate() or 0) > (found[name].record.rate() or 0):
                found[name] = row
    return found


def _mark(row: Row, metric: Bounded | None) -> str:
    """Return the prefix of a noisy rate or of a bound; the row's own reading has the sign of a bound already."""
    if row.noisy:
        return NOISY_MARK
    return "" if row.record.point.backend or metric is None else row.record.bound_sign(metric)


def _rate(row: Row) -> str:
    """Return the row's rate without its interval; for a bounded kernel, the rate of the work that bounds it."""
    metric = row.record.bound.metric
    mark = _mark(row, metric)
    if row.record.point.backend or metric is None:
        return mark + row.reading.quantity
    return mark + read(row.record.rate(metric) or 0.0, UNITS[metric]).quantity


def _bottleneck(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the bottlenecks of the training workloads, and the shares of the ceilings that the kernels reach."""
    trainings = [row for row in rows if row.training]
    by_verdict: dict[str | None, list[Row]] = {}
    for row in trainings:
        profile = row.record.profile
        by_verdict.setdefault(bottleneck_text(profile) if profile else None, []).append(row)
    for bound, alike in sorted(by_verdict.items(), key=lambda item: -len(item[1])):
        yield _bounded(bound, alike, len(trainings))
    known = shares_of_kernels(rows)
    if known:
        row, near = known[0], sum((each.of_ceiling.shown or 0.0) >= NEAR for each in known)
        reach = f"{near} of {len(known)} kernels reach{'es' * (near == 1)}"
        doubtful = " (≈: noisy)" if any(each.of_ceiling.doubtful is not None for each in known) else ""
        of = f"{reach} {percent(NEAR)} or more of the measured ceiling{doubtful}"
        name = f"{row.record.point.benchmark} {row.point}".strip()
        yield f"{of}; the lowest is {name} with {share(row.of_ceiling)}."
    elif not trainings:
        reason = next((row.of_ceiling.reason for row in rows if row.of_ceiling.reason), "")
        yield f"No share of a ceiling is known{': ' * bool(reason)}{reason}."


def shares_of_kernels(rows: Sequence[Row]) -> list[Row]:
    """Return the kernels with a share of a ceiling, the lowest share first, without the ceilings themselves."""
    kernels = [row for row in rows if not (row.training or row.sets_ceiling or row.of_ceiling.shown is None)]
    return sorted(kernels, key=lambda row: row.of_ceiling.shown or 0.0)


def _bounded(bound: str | None, rows: Sequence[Row], trainings: int) -> str:
    """Return the common bottleneck of some of the `trainings` workloads with advice, or why it is unknown, as text.

    The bottleneck of a single workload has its shares of the step time.
    """
    which = rows[0].record.point.benchmark if trainings == 1 else f"{len(rows)} of {trainings} training workloads"
    profile = rows[0].record.profile
    if profile is None:
        return f"The bottleneck of {which} is unknown: not profiled."
    if profile.bottleneck.bound is None:
        return f"The bottleneck of {which} is unknown: {profile.bottleneck.reason or 'no reason recorded'}."
    if len(rows) > 1:
        verdict = f"{which} are {bound}"
    else:
        reached = rows[0].of_ceiling
        of = f". It reaches {share(reached)} of the measured ceiling" if reached.shown is not None else ""
        verdict = f"{which} is {bottleneck_line(profile)}{of}"
    help_text = advice(profile)
    return f"{verdict}. To speed it up: {help_text}." if help_text else f"{verdict}."


def _confidence(run: Run) -> Iterator[str]:
    """Yield sentences on failures, noise, and results from a single process."""
    counts = run.counts
    if counts.failed:
        yield f"Incomplete: {counted(counts.failed, 'point')} failed."
    if counts.noisy:
        yield f"Low confidence in {counts.noisy} of {counts.measured} results (noisy: {'; '.join(_reasons(run))})."
    if counts.bounds:
        are = "are only bounds" if counts.bounds > 1 else "is only a bound"
        yield f"{counts.bounds} of {counts.measured} results {are}: {'; '.join(_reasons_of_bounds(run))}."
    if counts.disturbed:
        longer = ", or for longer (--patience)" * bool(counts.bounds)
        yield f"Repeat them on a quieter machine (see 'accelbench doctor'){longer}."
    elif not counts.failed:
        single = sum(len(row.record.rounds) <= 1 for row in run.rows)
        verified = "" if is_diagnosis(run.info) else ", and all results are verified"
        yield f"High: no noise was observed at {counted(counts.measured, 'point')}{verified}."
        if single:
            are = f"{single} results are" if single > 1 else "1 result is"
            yield f"{are} from a single process: another process may differ by a few per cent (use --rounds 5)."
    if run.below_best:
        yield f"{run.below_best}."
    if run.ceilings_from:
        yield f"T{run.ceilings_from[1:]}."


def _reasons_of_bounds(run: Run) -> list[str]:
    """Return the causes of bounds."""
    return [cause.sentence for cause in run.causes if cause.word == BOUND][:MAX_CAUSES]


def _reasons(run: Run) -> Iterator[str]:
    """Yield the causes of noise, each with its number of results unless it affects all noisy ones."""
    found = [cause for cause in run.causes if cause.word == NOISY]
    courses = Counter(row.course.kind for row in run.rows if row.course.kind != "steady")
    for reason, count in [*((cause.sentence, len(cause.rows)) for cause in found[:MAX_CAUSES]), *courses.items()]:
        yield reason if count == run.counts.noisy else f"{reason} ({counted(count, 'result')})"
    if (more := len(found) - MAX_CAUSES) > 0:
        yield f"{more} more causes" if more > 1 else "1 more cause"
