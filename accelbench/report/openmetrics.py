"""Export of a run in the OpenMetrics text format, for Prometheus and Grafana.

Every metric is a gauge without a time stamp, as the text file collector of node_exporter requires. Series of results do
not have the run's id as a label, so that a point has the same series in every run. Specification: OpenMetrics 1.0,
prometheus.io/docs/specs/om/open_metrics_spec.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from accelbench.output.plain_text import one_line
from accelbench.profiling.records.point import Point
from accelbench.report.rows import Row
from accelbench.report.stored_run import Run

OWN_LABELS = frozenset(
    {"benchmark", "device", "backend", "point", "unit", "metric", "instance", "job", "le", "quantile"}
)
"""Reserved labels, which an axis may not use: labels of accelbench and of Prometheus."""
GaugeSample = tuple[Mapping[str, str], float | None]
"""Labels and value of a series; None (unknown) has no series."""


class RunCollector(Collector):
    """Prometheus collector of one run's metrics."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield each metric with all its series."""
        run = self._run
        rows = [(_of_point(row.record.point), row) for row in run.rows]
        yield _gauge("run", "Facts of the run as labels; the value is 1.", [(_of_run(run), 1.0)])
        begun = run.info.created.timestamp()
        yield _gauge("run_created_timestamp_seconds", "Start time of the run in seconds since 1970.", [({}, begun)])
        counts = {name: getattr(run.counts, name) for name in ("measured", "disturbed", "failed", "skipped")}
        yield _gauge(
            "points",
            "Number of points by outcome; disturbed points (noisy ones and bounds) are included in measured.",
            [({"outcome": name}, count) for name, count in counts.items()],
        )
        yield _gauge(
            "point_measured",
            "1 if the point has a verified result, 0 if it failed or was skipped.",
            [(_of_point(record.point), record.status == "measured") for record in run.records],
        )
        yield _gauge(
            "point_disturbed",
            "1 if the result is noisy or a bound, else 0.",
            [(labels, row.disturbed is not None) for labels, row in rows],
        )
        yield _gauge(
            "point_bound",
            "1 if the result is only a bound, because too few samples were undisturbed, else 0.",
            [(labels, bool(row.record.bound_sign())) for labels, row in rows],
        )
        yield from _figures(rows)
        yield _gauge(
            "share_of_ceiling_ratio",
            "Result as a share of the measured ceiling.",
            [(labels, row.of_ceiling.value) for labels, row in rows],
        )
        yield _gauge(
            "share_of_peak_ratio",
            "Result as a share of the vendor's peak.",
            [(labels, row.of_peak.value) for labels, row in rows],
        )
        yield _gauge(
            "metric",
            "Additional metric of the point, in the unit of the label.",
            [
                ({**labels, "metric": name, "unit": metric.unit or ""}, metric.value)
                for labels, row in rows
                for name, metric in row.record.metrics.items()
            ],
        )


def openmetrics(run: Run) -> str:
    """Return the run in the OpenMetrics text format; unknown values have no series."""
    registry = CollectorRegistry()
    registry.register(RunCollector(run))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text.decode()


def _figures(rows: Sequence[tuple[Mapping[str, str], Row]]) -> Iterator[GaugeMetricFamily]:
    """Yield the main result of each point, the ends of its interval, and its time."""
    of_unit = [({**labels, "unit": row.record.unit}, row.record) for labels, row in rows]
    meanings = {
        "figure": "Main result of the point, in the unit of the label.",
        "figure_low": "Lower end of the result's interval.",
        "figure_high": "Upper end of the result's interval.",
    }
    for place, (name, meaning) in enumerate(meanings.items()):
        open_end = {"figure_low": "≤ ", "figure_high": "≥ "}.get(name)
        yield _gauge(
            name,
            meaning,
            [
                (
                    labels,
                    found[place] if (found := record.rate_interval()) and record.bound_sign() != open_end else None,
                )
                for labels, record in of_unit
            ],
        )
    yield _gauge(
        "execution_seconds",
        "Time of one execution or one training step.",
        [(labels, row.record.timing.execution.seconds if row.record.timing else None) for labels, row in rows],
    )


def _gauge(name: str, meaning: str, series: Iterable[GaugeSample]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"accelbench_{name}", meaning)
    for labels, value in series:
        if value is not None:
            family.add_sample(family.name, {label: one_line(text) for label, text in labels.items()}, float(value))
    return family


def _of_run(run: Run) -> dict[str, str]:
    return {
        "run": run.info.run_id,
        "label": run.info.label.words,
        "suite": run.info.suite or "",
        "device": run.info.device,
        "machine": run.machine,
        "status": run.info.status,
    }


def _of_point(point: Point) -> dict[str, str]:
    """Return the labels of a point: its identity, and each axis for filtering."""
    axes = {_label(axis): str(value) for axis, value in point.values.items()}
    own = {"benchmark": point.benchmark, "device": point.device, "backend": point.backend or "", "point": point.details}
    return {**axes, **own}


def _label(axis: str) -> str:
    """Return a valid label name for an axis."""
    label = re.sub(r"\W", "_", axis, flags=re.ASCII)
    return label if re.match("[A-Za-z]", label) and label not in OWN_LABELS else f"axis_{label}"
