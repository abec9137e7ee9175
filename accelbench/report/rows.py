"""Rows of the report: result, shares of peak and ceiling, flags, and the command that repeats the measurement."""

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
from typing import Literal

from accelbench.execution.store import RunInfo, Settings
from accelbench.output.format import FormattedResult, counted, digits, percent, read_result, seconds
from accelbench.profiling.analysis.course import (
    TimeCourse,
    bursts,
    condition_of,
    course_of,
    disturbances,
    epoch_boundaries,
)
from accelbench.profiling.analysis.roofline import (
    BEYOND,
    Ceiling,
    Share,
    arithmetic_intensity,
    ceilings,
    power_limited_clock,
    share_of_ceiling,
    share_of_peak,
    share_of_peak_at_clock,
)
from accelbench.profiling.machine.environment.files import format_cpu_list
from accelbench.profiling.machine.pcie import LINK_SHARE, WHOLE_LINK
from accelbench.profiling.records.quality import Data
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.script import SCRIPT
from accelbench.profiling.records.telemetry import Gauge, Telemetry
from accelbench.profiling.records.timing import Timing

UNSTEADY = 0.02
"""Relative width of an interval (±1 %) above which a median is flagged `unsteady`."""
WANTED_CONFIDENCE = 0.949
COUNTS_DIFFER = 0.05
MOSTLY_CLEAN = 0.9
"""Share of clean samples below which it is shown."""
_ONE_OF_MANY = re.compile(r"\.\d+$")


FlagWord = Literal[
    "noisy",
    "bound",
    "drifts",
    "two speeds",
    "limited by settings",
    "slow link",
    "power limit",
    "throttled",
    "unsteady",
    "few samples",
    "bursts",
    "epoch turns",
    "over 100 %",
]
"""Flags of results; `docs/guide.md` explains each."""


@dataclass(frozen=True)
class Flag:
    """Flag of a result: a word for the table, and its meaning."""

    word: FlagWord
    meaning: str


@dataclass(frozen=True)
class Row:
    """Measured record with derived values."""

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
        """Return whether this record is itself its ceiling."""
        return self.record.ceiling and self.of_ceiling.shown == 1.0

    @property
    def disturbed(self) -> str | None:
        """Return the causes of noise, or of a bound, as text; None if the result is clean."""
        return "; ".join(disturbances(self.record, self.course)) or None

    @property
    def noisy(self) -> bool:
        """Return whether the result is noisy; a bound is not."""
        return condition_of(self.record, self.course) == "noisy"

    @property
    def few_clean(self) -> str | None:
        """Return the share of clean samples as text; None if it is unknown or at least `MOSTLY_CLEAN`."""
        share = self.record.timing.clean_share if self.record.timing else None
        if share is None or share >= MOSTLY_CLEAN:
            return None
        rounds = self.record.rounds
        clean = sum(part.upper_bound is None for part in rounds)
        of_rounds = f", {clean} of {len(rounds)} repetitions" if 0 < clean < len(rounds) else ""
        return f"{percent(share)} of the samples clean{of_rounds}"

    @property
    def training(self) -> bool:
        return self.record.timing is not None and self.record.timing.timer == "steps"

    @property
    def pinned_to(self) -> str | None:
        """Return the CPUs to which the repetitions of a single-core point were pinned, as a Linux CPU list.

        On a CPU with several kinds of cores, the kinds follow: `15 (Cortex-X925)`.
        """
        places = [part.placement for part in self.record.rounds] or [self.record.placement]
        cpus = {place.first for place in places if place and place.pinned and place.first is not None}
        kinds = sorted({place.core_kind for place in places if place and place.pinned and place.core_kind})
        of_kind = f" ({', '.join(kinds)})" if kinds else ""
        return f"{format_cpu_list(sorted(cpus))}{of_kind}" if cpus else None

    @property
    def intensity(self) -> float | None:
        """Return the arithmetic intensity in FLOP per byte of required traffic."""
        return arithmetic_intensity(self.record)

    @property
    def counts_differ(self) -> str | None:
        """Return the difference between the framework's and the layers' FLOP count as text, if it exceeds 5 %."""
        ratio = self.record.metrics.get("framework_flops_ratio")
        if ratio is None or abs(ratio.value - 1) <= COUNTS_DIFFER:
            return None
        return f"FLOPs counted by {self.record.point.backend}: {digits(ratio.value, 3)}× the layers' FLOPs"


@dataclass(frozen=True)
class Group:
    """Measured rows of one benchmark on one device and backend, in order of measurement."""

    benchmark: str
    device: str
    backend: str | None
    rows: tuple[Row, ...]

    @cached_property
    def bounded(self) -> bool:
        """Return whether any of these results has a declared bound."""
        return any(row.record.bound.metric for row in self.rows)

    @cached_property
    def training(self) -> bool:
        return any(row.training for row in self.rows)

    @cached_property
    def knows_peak(self) -> bool:
        """Return whether any row has a share of a vendor's peak."""
        return any(row.of_peak.value is not None for row in self.rows)

    @cached_property
    def knows_ceiling(self) -> bool:
        """Return whether any row has a share of a measured ceiling, possibly of a noisy one."""
        return any(row.of_ceiling.shown is not None for row in self.rows)

    @property
    def best(self) -> Row:
        """Return the row with the highest share of its ceiling, then on the most cores, then with the best result.

        Rows declared as ceilings count as a share of 1, even if they are noisy or not the best.
        """

        def rank(row: Row) -> tuple[float, bool, float]:
            rate, share = row.record.rate() or 0.0, row.of_ceiling.shown or 0.0
            signed = -rate if row.record.figure == "time" else rate
            return 1.0 if row.record.ceiling else share, row.record.bound.cores == "all", signed

        return max(self.rows, key=rank)

    @cached_property
    def varying(self) -> list[str]:
        """Return the axes with different values."""
        return varying_axes(self.rows)

    @cached_property
    def size_axis(self) -> str | None:
        """Return the first varying axis that is a size in bytes; None without one."""
        return next((axis for axis in self.varying if axis in self.rows[0].record.sizes), None)

    @cached_property
    def common(self) -> str:
        """Return the common backend and values of the rows as text."""
        record, varying = self.rows[0].record, self.varying
        backend = [f"backend={self.backend}"] if self.backend else []
        return " ".join(
            [*backend, params_text(record, [axis for axis in record.point.values if axis not in varying])]
        ).strip()

    def short(self, row: Row) -> str:
        """Return the row's values of the varying axes as text."""
        own = params_text(row.record, [axis for axis in self.varying if axis in row.record.point.values])
        layout = row.record.layout
        values = vars(layout)  # without fields that a foreign run may name
        defaults = {axis: values[name] for axis, name in layout.axes.items() if name in values}
        return own or " ".join(f"{axis}={defaults.get(axis, 'default')}" for axis in self.varying)


def varying_axes(rows: Sequence[Row]) -> list[str]:
    """Return the axes with different values in these rows, in order of declaration."""
    axes = dict.fromkeys(axis for row in rows for axis in row.record.point.values)
    return [axis for axis in axes if len({row.record.point.values.get(axis) for row in rows}) > 1]


def make_rows(records: Sequence[Record]) -> list[Row]:
    """Return a row for each measured record, with the ceilings measured by these records."""
    courses = [course_of(record) for record in records]
    return rows_of(records, courses, ceilings(records, courses))


def rows_of(records: Sequence[Record], courses: Sequence[TimeCourse], measured: Sequence[Ceiling] | None) -> list[Row]:
    """Return a row for each measured record, given the time courses and the ceilings of its run.

    Shares of a ceiling are unknown if the run measured none by choice (`measured` is None).
    """
    rows = []
    for record, course in zip(records, courses, strict=True):
        reading = read_result(record)
        if reading is not None:
            of_peak, of_ceiling = share_of_peak(record), share_of_ceiling(record, measured)
            flags = tuple(_flags(record, course, of_peak, of_ceiling))
            rows.append(Row(record, reading, of_peak, share_of_peak_at_clock(record), of_ceiling, course, flags))
    return rows


def make_groups(rows: Iterable[Row]) -> list[Group]:
    """Return the rows grouped by benchmark, device and backend, in the order of their first rows."""
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
    if timing.upper_bound:
        yield Flag("bound", timing.upper_bound)
    if course.kind != "steady":
        yield Flag(course.kind, course.sentence)
    if record.held_back:
        yield Flag("limited by settings", "; ".join(record.held_back))
    link = record.metrics.get(LINK_SHARE)
    if link is not None and link.value < WHOLE_LINK:
        yield Flag(
            "slow link", f"the PCIe link in use has {link.value:.0f} % of the bandwidth that card and slot support"
        )
    if limited := power_limited_clock(record):
        yield Flag("power limit", f"the median SM clock was {limited}")
    if timing.discarded:
        yield Flag("throttled", f"{timing.discarded} samples were discarded because the device was throttled")
    summary = timing.summary
    # Several repetitions: their interval covers it, and longer sampling would not change it.
    if len(record.rounds) <= 1 and not timing.upper_bound and _cut_short(timing):
        yield Flag("unsteady", "the time limit ended sampling before the interval was narrow")
    confidence = timing.execution.confidence
    if confidence < WANTED_CONFIDENCE and not timing.upper_bound:
        of = "1 sample" if summary.count == 1 else f"{summary.count} samples"
        if not timing.steady and summary.effective is not None and summary.effective <= summary.count / 2:
            of += f", {summary.effective:.1f} effectively independent"
        middle = "mean" if timing.steady else "median"
        yield Flag("few samples", f"{of}: the interval of the {middle} has {confidence:.0%} coverage instead of 95%")
    if meaning := bursts(timing):
        yield Flag("bursts", meaning)
    if meaning := epoch_boundaries(timing):
        yield Flag("epoch turns", meaning)
    if of_peak.value is not None and of_peak.value > BEYOND:
        yield Flag("over 100 %", f"faster than the vendor's peak of {of_peak.of}, which is for other hardware units")
    if of_ceiling.shown is None and of_ceiling.bound is not None:
        yield Flag("over 100 %", of_ceiling.reason or "")


def _cut_short(timing: Timing) -> bool:
    """Return whether the time limit ended sampling while the interval was wider than `UNSTEADY`."""
    summary = timing.summary
    return timing.stop == "time limit" and summary.ci_high - summary.ci_low > UNSTEADY * summary.median


def point_text(record: Record) -> str:
    """Return the point's name without benchmark and device: `backend=jax batch=128`."""
    return record.point.details


def trained_on(data: Data) -> str:
    """Return the data as text: `trained on 4,000, tested on 1,000 of synthetic data: …`."""
    held_out = f", tested on {data.held_out:,}" if data.held_out else ""
    note = f"; {data.note}" if data.note else ""
    return f"trained on {data.train:,}{held_out} of {source_of(data)}{note}"


def source_of(data: Data) -> str:
    """Return the source of the data, prefixed with `synthetic data:` if it is synthetic."""
    return f"{'synthetic data: ' if data.synthetic else ''}{data.source.removeprefix('synthetic: ')}"


def params_text(record: Record, axes: Iterable[str]) -> str:
    return " ".join(f"{axis}={record.point.values[axis]}" for axis in axes)


def lines(rows: Iterable[Row], axis: str, others: Sequence[str]) -> dict[str, list[tuple[int, Record]]]:
    """Return (axis value, record) pairs sorted by a numeric axis, grouped by the values of the other axes."""
    found: dict[str, list[tuple[int, Record]]] = {}
    for row in rows:
        value, params = row.record.point.values.get(axis), row.record.point.values
        if isinstance(value, int):
            label = params_text(row.record, [other for other in others if other in params and other != axis])
            found.setdefault(label, []).append((value, row.record))
    return {label: sorted(points, key=itemgetter(0)) for label, points in found.items()}


def summarize_gauges(telemetry: Telemetry | None) -> dict[str, Gauge]:
    """Return the gauges, with gauges of one kind (`cpu.load.0`, `cpu.load.1`, …) combined."""
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
    """Return the maximum number of items per group, at least 1, so that the total is at most `most`.

    Small groups leave their unused share to the larger ones.
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
    """Numbers of measured, failed and skipped points, and of points among the measured that are not clean."""

    measured: int = 0
    failed: int = 0
    skipped: int = 0
    disturbed: int = 0
    """Noisy points and bounds."""
    bounds: int = 0

    @property
    def noisy(self) -> int:
        return self.disturbed - self.bounds

    @property
    def points(self) -> int:
        return self.measured + self.failed + self.skipped

    def __add__(self, other: PointCounts) -> PointCounts:
        return PointCounts(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


def counts_of(records: Sequence[Record], courses: Sequence[TimeCourse]) -> PointCounts:
    """Return the counts of these records, given their time courses in the same order."""
    status = Counter(record.status for record in records)
    judged = zip(records, courses, strict=True)
    conditions = Counter(condition_of(record, course) for record, course in judged if record.status == "measured")
    disturbed = conditions["noisy"] + conditions["bound"]
    return PointCounts(status["measured"], status["failed"], status["skipped"], disturbed, conditions["bound"])


def is_diagnosis(info: RunInfo) -> bool:
    """Return whether the run is of `accelbench diagnose`, which cannot verify the results of a user's script."""
    return bool(info.plan) and all(point.benchmark.startswith(SCRIPT) for point in info.plan)


def count_text(info: RunInfo, counts: PointCounts) -> str:
    """Return the counts as text: `38 of 41 points measured and verified, 7 of them noisy, 1 failed, 2 skipped`."""
    missing = max(0, len(info.plan) - counts.points)
    verified = "" if is_diagnosis(info) else " and verified"
    parts = [f"{counts.measured} of {max(len(info.plan), counts.points)} points measured{verified}"]
    if counts.noisy:
        parts.append(f"{'all' if counts.noisy == counts.measured else counts.noisy} of them noisy")
    if counts.bounds:
        parts.append(counted(counts.bounds, "bound"))
    parts += [f"{counts.failed} failed"] if counts.failed else []
    parts += [f"{counts.skipped} skipped"] if counts.skipped else []
    parts += [f"{missing} not reached"] if missing else []
    return ", ".join(parts) + f", in {seconds(info.wall_s)}" * bool(info.wall_s)


def shell_command(record: Record, settings: Settings) -> str:
    """Return the command line that repeats the measurement of this point, quoted for a POSIX shell."""
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
    if settings.patience_s is not None:
        words += ["--patience", f"{settings.patience_s:g}"]
    if settings.rounds_of(point) != default.rounds_of(point):
        words += ["--rounds", f"{settings.rounds_of(point)}"]
    if settings.time_limit_s != default.time_limit_s:
        words += ["--time-limit", f"{settings.time_limit_s:g}"]
    return shlex.join(words)
