"""The documents of what commands find: runs, comparisons, histories, judged claims, and the state of a machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from accelbench.export.document import Document, Outcome, Row
from accelbench.format import read_figure

if TYPE_CHECKING:
    from accelbench.compare.change import Change
    from accelbench.compare.regression import Regression
    from accelbench.compare.runs import Comparison
    from accelbench.doctor.check import Check
    from accelbench.history.series import Series
    from accelbench.pair.result import PairResult, PointResult
    from accelbench.report.stored_run import Run
    from accelbench.reproduce.judging import Judgement
    from accelbench.reproduce.verdict import Verdict
    from profiling.records.environment import Environment
    from profiling.timing.statistics import Estimate

OF_CLAIM: dict[Verdict, Outcome] = {
    "confirmed": "passed",
    "predicted": "passed",
    "refuted": "failed",
    "inconclusive": "skipped",
}


def document_of_runs(runs: Sequence[Run], command: str) -> Document:
    """Return every point of the runs with its figure, its flags and what holds it back."""
    each = [_of_run(run) for run in runs]
    facts = each[0] if len(each) == 1 else {"runs": each}
    told = ["run"] * (len(runs) > 1) + ["figure", "bound", "normal", "flags"]
    return Document(command, facts, [row for run in runs for row in _points(run)], told)


def _of_run(run: Run) -> dict[str, Any]:
    from accelbench.report.answer import answer

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
        facts["left_out"] = f"{len(run.left_out.points):,} points of this large run are in its records.csv alone"
    if found:
        facts |= {"how_fast": found.how_fast, "holds_back": found.holds_back, "believe": found.believe}
    return facts


def _points(run: Run) -> Iterator[Row]:
    from accelbench.report.standing import standings

    normal = {str(standing.row.record.point): standing.sentence for standing in standings(run)}
    for row in run.rows:
        record = row.record
        profile = record.profile
        rate, low, high = record.rate_interval() or (None, None, None)
        yield Row(
            name=str(record.point),
            values={
                "run": run.info.run_id,
                "figure": str(row.reading),
                "rate": rate,
                "low": low,
                "high": high,
                "unit": record.unit,
                "seconds": record.timing.execution.seconds if record.timing else None,
                "of_ceiling": row.of_ceiling.value,
                "of_peak": row.of_peak.value,
                "bound": profile.bottleneck.bound if profile else None,
                "normal": normal.get(str(record.point)),
                "metrics": {name: metric.value for name, metric in record.metrics.items()},
                "disturbed": row.disturbed is not None,
                "flags": [flag.word for flag in row.flags],
            },
            reason=row.disturbed or "",
            seconds=record.elapsed_s,
        )
    unmeasured: tuple[Outcome, ...] = ("failed", "skipped")
    for status in unmeasured:
        for record in run.of_status(status):
            yield Row(str(record.point), {"run": run.info.run_id}, status, record.reason or "", record.elapsed_s)
    for point in run.lost if run.info.status == "finished" else ():
        yield Row(point, {"run": run.info.run_id}, "failed", "its record is gone")


def document_of_comparison(comparison: Comparison, regressions: Sequence[Regression]) -> Document:
    """Return each point of both sides; a regression has failed, and what cannot be told is skipped."""
    facts = {
        "a": comparison.a,
        "b": comparison.b,
        "equivalence": comparison.equivalence,
        "differences": [{"fact": d.fact, "a": d.a, "b": d.b, "matters": d.matters} for d in comparison.differences],
        "notes": comparison.notes,
        "only_a": comparison.only_a,
        "only_b": comparison.only_b,
    }
    worse = {regression.point: regression.reason for regression in regressions}
    rows = [_change(change, worse.get(change.point)) for change in comparison.changes]
    for pair in comparison.unmeasured:
        reason = "; ".join(f"{r.status}: {r.reason}" for r in (*pair.a, *pair.b) if r.status != "measured")
        rows.append(Row(pair.point, {}, "failed" if pair.point in worse else "skipped", worse.get(pair.point, reason)))
    return Document("compare", facts, rows, ["verdict", "change", "notes"])


def _change(change: Change, regression: str | None) -> Row:
    speed = change.evidence.speed if change.evidence else None
    undecided = change.verdict == "cannot tell"
    return Row(
        name=change.point,
        values={
            "verdict": change.verdict,
            **_speed(speed),
            "basis": change.evidence.basis if change.evidence else None,
            "disturbed": change.barred,
            "notes": change.notes,
        },
        outcome="failed" if regression else "skipped" if undecided else "passed",
        reason=regression or change.reason or "",
    )


def _speed(speed: Estimate | None) -> dict[str, Any]:
    """Return the columns of the speed of B over that of A, of which `change` is in words: `× 0.956 (0.951–0.960)`."""
    if speed is None:
        return dict.fromkeys(("change", "speed", "low", "high"))
    change = f"× {speed.value:.3f} ({speed.low:.3f}–{speed.high:.3f})"
    return {"change": change, "speed": speed.value, "low": speed.low, "high": speed.high}


def document_of_pair(result: PairResult, slower: Sequence[PointResult]) -> Document:
    """Return each point of a pair; one of `slower` has failed, and so has what was not measured."""
    facts = {"a": result.a.model_dump(), "b": result.b.model_dump(), "status": result.status}
    rows = []
    for point in result.points:
        values = {
            "verdict": point.verdict,
            **_speed(point.speed),
            "a": point.figure_a,
            "b": point.figure_b,
            "unit": point.unit,
            "pairs": len(point.ratios),
            "disturbed": point.disturbed,
        }
        failed = point in slower or point.verdict == "not measured"
        outcome: Outcome = "failed" if failed else "skipped" if point.verdict == "cannot tell" else "passed"
        rows.append(Row(point.point, values, outcome, point.reason or ("a regression" if failed else "")))
    return Document("pair", facts, rows, ["verdict", "change", "pairs", "disturbed"])


def document_of_history(series: Sequence[Series], passed_over: Sequence[str]) -> Document:
    """Return each point of each machine with its runs, its spread between them, and its changes of speed."""
    rows = []
    for one in series:
        latest = one.entries[-1].record if one.entries else None
        values = {
            "machine": one.machine,
            "runs": len(one.entries),
            "disturbed": one.disturbed,
            "figure": str(read_figure(latest) or "") if latest else None,
            "latest": latest.rate() if latest else None,
            "unit": latest.unit if latest else None,
            "spread": one.spread.deviation if one.spread else None,
            "changes": [{"speed": step.speed, "from": step.when.isoformat(), "run": step.run_id} for step in one.steps],
            "trend": {"speed": one.trend.speed, "days": one.trend.days} if one.trend else None,
        }
        rows.append(Row(str(one.point), values))
    return Document("history", {"passed_over": passed_over}, rows, ["machine", "runs", "figure", "spread", "changes"])


def document_of_judgement(judgement: Judgement) -> Document:
    """Return each claim of the study with its verdict; a refuted one has failed, and an undecided one is skipped."""
    facts = {
        "paper": judgement.paper.name,
        "citation": str(judgement.paper.citation),
        "runs": [run.info.run_id for run in judgement.runs],
        "verdicts": judgement.sentence,
        "without_verdict": [{"name": n.id, "claim": n.says, "note": n.note} for n in judgement.paper.note],
        "notes": judgement.notes,
    }
    rows = []
    for judged in judgement.claims:
        claim, finding = judged.claim, judged.finding
        values = {
            "claim": claim.says,
            "verdict": finding.verdict,
            "published": claim.published or None,
            "ours": finding.ours or None,
            "evidence": finding.evidence,
            "not_decided": claim.not_decided or None,
        }
        why = f"{finding.reason}: {finding.why}" if finding.reason else finding.why
        rows.append(Row(claim.id, values, OF_CLAIM[finding.verdict], why))
    return Document("reproduce", facts, rows)


def document_of_checks(environment: Environment, checks: Sequence[Check]) -> Document:
    """Return the machine, and each thing that was looked at; what is missing has failed."""
    from accelbench.doctor import describe

    machine: dict[str, list[str]] = {}
    name = ""
    for heading, fact in describe(environment):
        name = heading or name
        machine.setdefault(name, []).append(fact)
    rows = [
        Row(
            check.name,
            {"status": check.status, "found": check.found, "advice": check.advice, "cost": check.cost},
            "failed" if check.status == "missing" else "passed",
            "" if check.status == "ok" else check.found,
        )
        for check in checks
    ]
    return Document("doctor", {"machine": machine, "unknown": environment.unknown}, rows)
