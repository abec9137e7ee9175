"""Number formats: SI prefixes, significant digits, intervals, durations."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from accelbench.profiling.analysis.uncertain_quality import quality_interval
from accelbench.profiling.records.quality import Metric, Quality
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import UNITS

if TYPE_CHECKING:  # imports SciPy, which would slow down every command
    from accelbench.profiling.analysis.roofline import Share

UNKNOWN = "–"
STEADY = 0.005
"""Relative width of an interval below which four significant digits are printed."""
LOPSIDED = 2.0
"""Ratio of an interval's sides above which the bounds are printed instead of `±`."""
WIDE = 0.25
"""Half width of an interval, relative to the value, above which the bounds are printed."""
APART = 2.0
"""Ratio of an interval's ends above which it says little, so that the repetitions are printed instead."""

HOUR = 3600
MAX_LABEL = 37
"""Maximum length of a label in a plot."""

PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


@dataclass(frozen=True)
class FormattedResult:
    """A result in one unit with its interval, ready to print."""

    value: str
    """Formatted number: `102.3`; `≥ 102` for a bound."""
    unit: str
    """Unit with its prefix: `GFLOP/s`."""
    interval: str
    """Interval: `±0.4 %`, or `98.1–104.2` in the same unit if it is asymmetric; empty if there is none."""
    confidence: float | None = None
    repetitions: str = ""
    """Results of the repetitions, in place of an interval that would be very wide: `repetitions 2.51, 0.54, 2.49`."""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.quantity, self.interval, self.repetitions and f"({self.repetitions})")))

    @property
    def quantity(self) -> str:
        """Return the result without its interval: `102.3 GFLOP/s`."""
        return f"{self.value} {self.unit}".rstrip()


def counted(number: int, what: str) -> str:
    """Return a count with its noun: `1 point`, `2,000 points`."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def clip(text: str, most: int = MAX_LABEL) -> str:
    """Return the text, cut to `most` characters with an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def headline(record: Record) -> str:
    """Return the result of a measured record with its interval, or its status and reason."""
    reading = read_result(record)
    return str(reading) if reading else f"{record.status}: {record.reason}"


def read_result(record: Record) -> FormattedResult | None:
    """Return the main result of a record: a rate, or the time of one item or execution.

    None for a point that was not measured. If the work is unknown, the result is the time. A bound has no interval. The
    interval of few repetitions that differ by more than a factor of 2 would contain rates that the device cannot reach.
    """
    if record.timing is None or record.status != "measured":
        return None
    execution, found, unit, sign = record.timing.execution, record.rate_interval(), record.unit, record.bound_sign()
    if not found or not found[0]:
        found, unit, sign = execution[:3], "s", record.bound_sign("time")
    if sign:
        bound = read(found[0], unit)
        return replace(bound, value=f"{sign}{bound.value}")
    result = read(found[0], unit, *found[1:], execution.confidence)
    each = [] if record.timing.steady else record.repetition_rates()
    if len(each) > 1 and found[2] > APART * found[1]:
        scale = scale_of(found[0], unit)[0]
        return replace(
            result, interval="", repetitions=f"repetitions {', '.join(digits(rate / scale) for rate in each)}"
        )
    return result


def read(
    value: float, unit: str, low: float | None = None, high: float | None = None, confidence: float | None = None
) -> FormattedResult:
    """Format a value with the SI prefix of its unit, and the interval in the same scale."""
    if not math.isfinite(value):
        return FormattedResult(str(value), unit, "")
    scale, unit = scale_of(value, unit)
    if low is None or high is None or not value or not (math.isfinite(low) and math.isfinite(high)):
        return FormattedResult(digits(value / scale), unit, "")
    below, above = (value - low) / value, (high - value) / value
    significant = 4 if max(below, above) < STEADY else 3
    text = digits(value / scale, significant)
    if max(below, above) > min(WIDE, LOPSIDED * max(min(below, above), STEADY)):
        interval = f"{digits(low / scale, significant)}–{digits(high / scale, significant)}"
    else:
        interval = f"±{percent(max(below, above))}"
    return FormattedResult(text, unit, interval, confidence)


def scale_of(value: float, unit: str) -> tuple[float, str]:
    """Return the divisor of a value for printing, and the unit with its prefix."""
    if value == 0:
        return 1.0, unit
    magnitude = abs(value) * (1 + 5e-4)  # 999.96 reads as the next prefix's 1.00
    if unit == "s":
        return next(((s, name) for s, name in TIMES if magnitude >= s), TIMES[-1])
    scale, prefix = next(((s, p) for s, p in PREFIXES if magnitude >= s), PREFIXES[-1])
    if unit in UNITS.values() or unit in ("B", "FLOP", "Hz", "W", "J", "B/J", "FLOP/J"):
        return scale, f"{prefix}{unit}"
    # Images and nodes take no prefix below a million: 12,300 images/s.
    return (scale, f"{prefix} {unit}") if scale >= 1e6 else (1.0, unit)


def digits(value: float, significant: int = 3) -> str:
    """Return the value with `significant` digits and thousands separators; in scientific notation only far from 1."""
    if value == 0 or not math.isfinite(value):
        return str(value) if value else "0"
    magnitude = math.floor(math.log10(abs(value)))
    if not -5 <= magnitude < 15:
        return f"{value:.{significant - 1}e}"
    rounded = round(value, significant - 1 - magnitude)
    if math.floor(math.log10(abs(rounded))) > magnitude:
        magnitude += 1
    return f"{rounded:,.{max(0, significant - 1 - magnitude)}f}"


def scientific(value: float) -> str:
    """Return an error as `3.1e−07` (with a non-breaking minus sign), or as `0`."""
    return "0" if value == 0 else f"{value:.1e}".replace("-", "−")


def percent(fraction: float) -> str:
    """Return a percentage: `92 %` from ten on, `3.2 %` below, one significant digit below a tenth (`0.04 %`)."""
    if not math.isfinite(fraction):
        return str(fraction)
    value = 100 * fraction
    if 0 < abs(value) < 0.095:
        return f"{value:.1g} %" if abs(value) >= 0.00095 else "<0.001 %"
    return f"{value:.1f} %" if abs(value) < 9.95 else f"{value:,.0f} %"


def share(of: Share) -> str:
    """Return a share in percent, or `UNKNOWN`; `≥ 43 %` for the share of a bound, `≈ 43 %` of a noisy ceiling."""
    if of.value is None:
        return UNKNOWN if of.doubtful is None else f"≈ {percent(of.doubtful)}"
    return f"{'≥ ' * of.at_least}{percent(of.value)}"


def bound(of: Share) -> str:
    """Return the bound of a share: `67.0 TFLOP/s`; empty if unknown."""
    if of.bound is None or of.metric is None:
        return ""
    return read(of.bound, UNITS[of.metric]).quantity


def metric(of: Metric) -> str:
    """Return a metric with its unit; without a unit, whole numbers are exact and others have up to four digits."""
    if not of.unit:
        return f"{of.value:,.0f}" if float(of.value).is_integer() else f"{of.value:.4g}"
    return read(of.value, of.unit).quantity


def quality_in_short(record: Record, quality: Quality, mean: Metric | None = None) -> str:
    """Return a quality, or its mean over runs, with its interval: `0.951 (0.941–0.961)`."""
    found = mean or record.metrics[quality.name]
    ends = quality_interval(record, quality, found.value)
    return metric(found) + (f" ({ends[0]:.3g}–{ends[1]:.3g})" if ends else "")


def quality_text(record: Record, quality: Quality) -> str:
    """Return a measured quality with its uncertainty.

    `0.9731 (0.955–0.984 by 500 examples), ±0.004 over 3 trainings, worst of 3 trainings 0.968`: interval by the number
    of held-out examples, standard deviation over several training runs, and the worst values.
    """
    metrics, words = record.metrics, [metric(record.metrics[quality.name])]
    if record.data and (ends := quality_interval(record, quality)):
        words[0] += f" ({ends[0]:.3g}–{ends[1]:.3g} by {record.data.held_out:,} examples)"
    if record.data and quality.deviation in metrics:
        words.append(f"±{metrics[quality.deviation].value:.2g} over {record.data.trainings} trainings")
    words += [f"worst of {each.over} {metric(metrics[each.name])}" for each in quality.worst if each.name in metrics]
    return ", ".join(words)


def metric_texts(record: Record) -> dict[str, str]:
    """Return the formatted metrics by name; a quality includes the metrics of its own uncertainty."""
    qualities = {quality.name: quality for quality in record.qualities if quality.name in record.metrics}
    within = {quality.deviation for quality in qualities.values()}
    within |= {worst.name for quality in qualities.values() for worst in quality.worst}
    return {
        name: quality_text(record, qualities[name]) if name in qualities else metric(value)
        for name, value in record.metrics.items()
        if name not in within
    }


def seconds(value: float) -> str:
    """Return a duration as `640 µs`, `2.31 s`, `4:05 min` or `1.5 h`."""
    if value == 0:
        return "0 s"
    if value >= HOUR:
        return f"{value / HOUR:.1f} h"
    return f"{clock(value)} min" if value >= 100 else read(value, "s").quantity


def clock(seconds: float) -> str:
    """Return a duration in minutes and seconds: `4:05`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
