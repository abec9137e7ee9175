"""A run as an OpenMetrics text, which Prometheus stores and Grafana draws: what a node measures, night after night.

Every metric is a gauge without a time stamp, for the text file collector of node_exporter takes nothing else. No series
has the run's id among its labels: so the figure of a point goes on in the same series from one run to the next.
Specification: OpenMetrics 1.0, prometheus.io/docs/specs/om/open_metrics_spec.
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
"""The labels that an axis may not be called by: ours, and those that Prometheus sets itself."""
GaugeSample = tuple[Mapping[str, str], float | None]
"""The labels of a series and its value; None for what is not known, which has no series."""


class RunCollector(Collector):
    """The metrics of one run."""

    def __init__(self, run: Run) -> None:
        """Collect from that run."""
        self._run = run

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield each metric with all its series."""
        run = self._run
        rows = [(_of_point(row.record.point), row) for row in run.rows]
        yield _gauge("run", "The run that all of this is from.", [(_of_run(run), 1.0)])
        begun = run.info.created.timestamp()
        yield _gauge("run_created_timestamp_seconds", "When the run was begun, in seconds since 1970.", [({}, begun)])
        counts = {name: getattr(run.counts, name) for name in ("measured", "disturbed", "failed", "skipped")}
        yield _gauge(
            "points",
            "The number of points by outcome; those disturbed are measured, too.",
            [({"outcome": name}, count) for name, count in counts.items()],
        )
        yield _gauge(
            "point_measured",
            "Whether the point has a verified figure: 0 if it failed or was skipped.",
            [(_of_point(record.point), record.status == "measured") for record in run.records],
        )
        yield _gauge(
            "point_disturbed",
            "Whether something disturbed the figure.",
            [(labels, row.disturbed is not None) for labels, row in rows],
        )
        yield from _figures(rows)
        yield _gauge(
            "share_of_ceiling_ratio",
            "The figure over the best rate that this run measured.",
            [(labels, row.of_ceiling.value) for labels, row in rows],
        )
        yield _gauge(
            "share_of_peak_ratio",
            "The figure over the vendor's peak.",
            [(labels, row.of_peak.value) for labels, row in rows],
        )
        yield _gauge(
            "metric",
            "A further figure of the point, in the unit of its label.",
            [
                ({**labels, "metric": name, "unit": metric.unit or ""}, metric.value)
                for labels, row in rows
                for name, metric in row.record.metrics.items()
            ],
        )


def openmetrics(run: Run) -> str:
    """Return the run in the OpenMetrics text format; what is not known has no series."""
    registry = CollectorRegistry()
    registry.register(RunCollector(run))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text.decode()


def _figures(rows: Sequence[tuple[Mapping[str, str], Row]]) -> Iterator[GaugeMetricFamily]:
    """Yield the figure that the report leads with, both ends of its interval, and the time that it is made of."""
    of_unit = [({**labels, "unit": row.record.unit}, row.record.rate_interval()) for labels, row in rows]
    meanings = {
        "figure": "The figure that the report leads with, in the unit of its label.",
        "figure_low": "The lower end of the figure's interval.",
        "figure_high": "The upper end of the figure's interval.",
    }
    for place, (name, meaning) in enumerate(meanings.items()):
        yield _gauge(name, meaning, [(labels, found[place] if found else None) for labels, found in of_unit])
    yield _gauge(
        "execution_seconds",
        "The time of one execution, or of one training step.",
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
    """Return what tells a point from all others, and each axis by itself, by which one filters."""
    axes = {_label(axis): str(value) for axis, value in point.values.items()}
    own = {"benchmark": point.benchmark, "device": point.device, "backend": point.backend or "", "point": point.details}
    return {**axes, **own}


def _label(axis: str) -> str:
    """Return an axis's name as a label may be called, whatever it is."""
    label = re.sub(r"\W", "_", axis, flags=re.ASCII)
    return label if re.match("[A-Za-z]", label) and label not in OWN_LABELS else f"axis_{label}"
