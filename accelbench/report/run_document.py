"""Result document of runs: a row for each point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from accelbench.export.document import DocumentRow, ResultDocument, RowOutcome
from accelbench.profiling.analysis.course import condition_of
from accelbench.profiling.analysis.energy import energy_of_execution, work_per_joule
from accelbench.report.answer import answer
from accelbench.report.stored_run import Run


def document_of_runs(runs: Sequence[Run], command: str) -> ResultDocument:
    """Return a document with a row for each point of the runs: result, shares, bottleneck and flags."""
    each = [_of_run(run) for run in runs]
    facts = each[0] if len(each) == 1 else {"runs": each}
    markdown = ["run"] * (len(runs) > 1) + ["figure", "bound", "normal", "flags"]
    return ResultDocument(command, facts, [row for run in runs for row in _points(run)], markdown)


def _of_run(run: Run) -> dict[str, Any]:
    found = answer(run)
    facts = {
        "run": run.info.run_id,
        "label": run.info.label.words,
        "suite": run.suite,
        "device": run.info.device,
        "machine": run.machine,
        "created": run.info.created.isoformat(),
        "status": run.info.status,
        "outcome": run.outcome,
    }
    if run.left_out.points:
        facts["left_out"] = f"{len(run.left_out.points):,} points of this large run are only in its records.csv"
    if found:
        facts |= {"how_fast": found.speed, "holds_back": found.bottleneck, "believe": found.confidence}
    return facts


def _points(run: Run) -> Iterator[DocumentRow]:
    normal = {str(each.record.point): each.sentence for each in run.reference_comparisons}
    for row in run.rows:
        record = row.record
        profile = record.profile
        rate, low, high = record.rate_interval() or (None, None, None)
        yield DocumentRow(
            name=str(record.point),
            values={
                "run": run.info.run_id,
                "figure": str(row.reading),
                "rate": rate,
                "low": None if record.bound_sign() == "≤ " else low,
                "high": None if record.bound_sign() == "≥ " else high,
                "unit": record.unit,
                "seconds": record.timing.execution.seconds if record.timing else None,
                "energy_j": energy.value if (energy := energy_of_execution(record)) else None,
                "work_per_joule": work.value if (work := work_per_joule(record)) else None,
                "of_ceiling": row.of_ceiling.value,
                "of_peak": row.of_peak.value,
                "bound": profile.bottleneck.bound if profile else None,
                "normal": normal.get(str(record.point)),
                "metrics": {name: metric.value for name, metric in record.metrics.items()},
                "disturbed": row.disturbed is not None,
                "condition": condition_of(record, row.course),
                "clean_share": record.timing.clean_share if record.timing else None,
                "flags": [flag.word for flag in row.flags],
            },
            reason=row.disturbed or "",
            seconds=record.elapsed_s,
        )
    unmeasured: tuple[RowOutcome, ...] = ("failed", "skipped")
    for status in unmeasured:
        for record in run.of_status(status):
            yield DocumentRow(
                str(record.point), {"run": run.info.run_id}, status, record.reason or "", record.elapsed_s
            )
    for point in run.lost if run.info.status == "finished" else ():
        yield DocumentRow(point, {"run": run.info.run_id}, "failed", "record missing")
