"""The documents of what commands find: runs, comparisons, histories, judged claims, and the state of a machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

from accelbench.export.document import Column, Document, Outcome, Row
from accelbench.format import UNKNOWN, percent, quality_in_short, read, read_figure

if TYPE_CHECKING:
    from accelbench.compare.change import Change
    from accelbench.compare.regression import Regression
    from accelbench.compare.runs import Comparison
    from accelbench.doctor.check import Check
    from accelbench.history.series import Series
    from accelbench.pair.result import PairResult, PointResult
    from accelbench.report.stored_run import Run
    from accelbench.reproduce.judging import Judgement
    from accelbench.reproduce.verdict import Word
    from profiling.records.environment import Environment
    from profiling.records.record import Record
    from profiling.timing.statistics import Estimate

SIDES = Column("A\nB", ("{figure_a}", "{figure_b}"), right=True, whole=True)
SPEED = ("× {speed:.3f}", "{low:.3f}–{high:.3f}")
OF_CLAIM: dict[Word, Outcome] = {
    "confirmed": "passed",
    "predicted": "passed",
    "refuted": "failed",
    "cannot tell": "skipped",
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
    columns = (
        Column("point", ("{name}",), below=("{qualities}",)),
        SIDES,
        Column("speed of B\n95% interval", SPEED, right=True, whole=True),
        Column("verdict", ("{verdict}",), below=("{certainty}",), whole=True),
    )
    return Document("compare", facts, rows, ["verdict", "change", "notes"], columns)


def _change(change: Change, regression: str | None) -> Row:
    speed = change.evidence.speed if change.evidence else None
    undecided = change.verdict == "cannot tell"
    return Row(
        name=change.point,
        values={
            "verdict": change.verdict,
            "certainty": _certainty(change),
            **_speed(speed),
            "figure_a": _mean_figure(change.a),
            "figure_b": _mean_figure(change.b),
            "qualities": list(_qualities(change)),
            "basis": change.evidence.basis if change.evidence else None,
            "disturbed": change.barred,
            "notes": change.notes,
        },
        outcome="failed" if regression else "skipped" if undecided else "passed",
        reason=regression or change.reason or "",
    )


def _certainty(change: Change) -> str:
    """Return how sure the verdict is: by how little the same differ, or the p value that there is no difference."""
    if change.evidence is None or change.barred:
        return ""
    if change.verdict == "same":
        speed = change.evidence.speed
        return f"within {percent(max(1 - speed.low, 1 - 1 / speed.high))}"
    return f"p = {change.evidence.p:.2g}" if change.evidence.p >= 1e-4 else "p < 0.0001"


def _mean_figure(records: Sequence[Record]) -> str:
    """Return the figure of one run, or the geometric mean of the figures of several."""
    rates = [rate for record in records if (rate := record.rate())]
    reading = read_figure(records[0])
    if len(rates) == len(records) > 1:
        reading = read(geometric_mean(rates), records[0].unit)
    return reading.figure if reading else UNKNOWN


def _qualities(change: Change) -> Iterator[str]:
    """Yield each quality in A and in B, with its interval where it is a share of the record's held-out examples."""
    for quality in change.a[0].qualities:
        if quality.name in change.qualities:
            pair = zip((change.a[0], change.b[0]), change.qualities[quality.name], strict=True)
            told = [quality_in_short(record, quality, mean) for record, mean in pair]
            between = " /\n  " if "(" in told[0] else " / "  # two intervals do not fit one line
            yield f"{quality.name} {between.join(told)}"


def _speed(speed: Estimate | None) -> dict[str, Any]:
    """Return the columns of the speed of B over that of A, of which `change` is in words: `× 0.956 (0.951–0.960)`."""
    if speed is None:
        return dict.fromkeys(("change", "speed", "low", "high"))
    change = f"× {speed.value:.3f} ({speed.low:.3f}–{speed.high:.3f})"
    return {"change": change, "speed": speed.value, "low": speed.low, "high": speed.high}


def document_of_pair(result: PairResult, slower: Sequence[PointResult]) -> Document:
    """Return each point of a pair; one of `slower` has failed, and so has what was not measured."""
    from accelbench.pair.paired import LOOK_CONFIDENCE

    facts = {"a": result.a.model_dump(), "b": result.b.model_dump(), "status": result.status}
    rows = []
    for point in result.points:
        values = {
            "verdict": point.verdict,
            **_speed(point.speed),
            "too_few_for": point.speed.confidence if point.speed and point.speed.confidence < LOOK_CONFIDENCE else None,
            "figure_a": None if point.figure_a is None else str(read(point.figure_a, point.unit)),
            "figure_b": None if point.figure_b is None else str(read(point.figure_b, point.unit)),
            "a": point.figure_a,
            "b": point.figure_b,
            "unit": point.unit,
            "pairs": len(point.ratios),
            "disturbed": point.disturbed,
        }
        failed = point in slower or point.verdict == "not measured"
        outcome: Outcome = "failed" if failed else "skipped" if point.verdict == "cannot tell" else "passed"
        rows.append(Row(point.point, values, outcome, point.reason or ("a regression" if failed else "")))
    columns = (
        Column("point", ("{name}",)),
        SIDES,
        Column("speed of B\n95% interval", SPEED, below=("({too_few_for:.0%})",), right=True, whole=True),
        Column("pairs", ("{pairs}",), right=True, whole=True),
        Column("B is", ("{verdict}",), whole=True),
    )
    return Document("pair", facts, rows, ["verdict", "change", "pairs", "disturbed"], columns)


def document_of_history(series: Sequence[Series], passed_over: Sequence[str]) -> Document:
    """Return each point of each machine with its runs, its spread between them, and its changes of speed."""
    rows = []
    for one in series:
        latest = one.entries[-1].record if one.entries else None
        reading = read_figure(latest) if latest else None
        changes = [f"× {step.speed:.3f} from {step.when:%Y-%m-%d %H:%M} on ({step.run_id})" for step in one.steps]
        if trend := one.trend:
            during = f"{trend.days:.0f} days" if trend.days >= 2 else f"{trend.days * 24:.1f} hours"
            changes.append(f"drifts: × {trend.speed:.3f} over the last {during}")
        values = {
            "machine": one.machine,
            "runs": len(one.entries),
            "disturbed": one.disturbed,
            "figure": str(reading) if reading else None,
            "value": reading.figure if reading else None,
            "latest": latest.rate() if latest else None,
            "unit": latest.unit if latest else None,
            "spread": one.spread.deviation if one.spread else None,
            "history": changes or ["none seen" if one.spread else "too few runs to tell"],
            "changes": [{"speed": step.speed, "from": step.when.isoformat(), "run": step.run_id} for step in one.steps],
            "trend": {"speed": trend.speed, "days": trend.days} if trend else None,
        }
        rows.append(Row(str(one.point), values))
    columns = (
        Column("point", ("{name}",)),
        Column("runs", ("{runs}",), below=("+{disturbed} disturbed",), right=True, whole=True),
        Column("latest", ("{value}",), right=True, whole=True),
        Column("spread", ("{spread:.2%}",), right=True, whole=True),
        Column("changes of speed", ("{history}",)),
    )
    told = ["machine", "runs", "figure", "spread", "changes"]
    return Document("history", {"passed_over": passed_over}, rows, told, columns)


def document_of_judgement(judgement: Judgement) -> Document:
    """Return each claim of the study with its verdict; a refuted one has failed, and an undecided one is skipped."""
    facts = {
        "paper": judgement.paper.name,
        "citation": str(judgement.paper.citation),
        "runs": [run.info.run_id for run in judgement.runs],
        "verdicts": judgement.sentence,
        "notes": judgement.notes,
    }
    rows = []
    for judged in judgement.claims:
        claim, finding = judged.claim, judged.finding
        values = {
            "claim": claim.says,
            "verdict": finding.word,
            "published": claim.published or None,
            "ours": finding.ours or None,
            "evidence": finding.evidence,
            "not_decided": claim.not_decided or None,
        }
        why = f"{finding.reason}: {finding.why}" if finding.reason else finding.why
        rows.append(Row(claim.id, values, OF_CLAIM[finding.word], why))
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
    columns = (
        Column("", ("{status}",), whole=True),
        Column("looked at", ("{name}",)),
        Column("found", ("{found}",)),
        Column("what to do", ("{advice}",), below=("as it is: {cost}",)),
    )
    return Document("doctor", {"machine": machine, "unknown": environment.unknown}, rows, columns=columns)
