"""Workers of one point, one per rank, and the handling of failures.

A point of one process has a team of one. The record of the point is the record of rank 0, with the measurements of the
other ranks added. The first rank that dies, fails or sends no heartbeat ends the others, which would wait for it
forever. A failure during profiling, after all ranks have measured, loses only the profile.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from selectors import EVENT_READ, DefaultSelector
from time import monotonic
from typing import Any, NamedTuple, Protocol

from accelbench.profiling.analysis.experiments import checked, compare_steps
from accelbench.profiling.analysis.step_parts import split_step, with_exchange
from accelbench.profiling.devices import device_kind
from accelbench.profiling.ranks.channel import Message
from accelbench.profiling.records.bottleneck import Bottleneck
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.record import Profile, RankRecord, Record, Status
from accelbench.profiling.records.trace import LAUNCHING, Breakdown

GRACE_SECONDS = 3.0
"""Seconds to wait for further failures after the first: the first report is often not the cause."""
SILENCE_SECONDS, SILENCE_BEFORE_STEPS = 30.0, 120.0
"""Seconds without a heartbeat after which a rank counts as hung; workers send one every second.

The limit is longer before the first step: a framework may hold the GIL while it is imported or compiles.
"""
ENDED_ON_PURPOSE = (signal.SIGTERM, signal.SIGINT)
"""Signals that end a whole job: the point is measured when the run is resumed."""


class Member(Protocol):
    """Worker of one rank, on this host or another."""

    def fileno(self) -> int:
        """Return the descriptor to wait on."""

    def read(self) -> list[Message]:
        """Return the received messages, with validated records; the last message of a worker is `ended`."""

    def overdue(self) -> list[Message]:
        """Return the message `ended` if the rank of the worker sends no heartbeats, else an empty list."""

    def tail(self) -> list[str]:
        """Return the last lines of a local worker's output, also after `close`; empty for a remote worker."""

    def tail_and_stack(self) -> list[str]:
        """Return the last lines of the worker's output and its current stack."""

    def close(self) -> None:
        """End the worker."""


class PointFailure(NamedTuple):
    """Failure of a point: the rank, the reason and the tail of the output."""

    rank: int | None
    reason: str
    tail: list[str]
    signal: int | None = None
    status: Status = "failed"
    lost: bool = False
    """Whether the whole rank is lost, and not only its worker."""


class Team:
    """Running workers of one point."""

    def __init__(self, members: Sequence[Member], nodes: Sequence[int]) -> None:
        self._members = members
        self._nodes = nodes

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *error: object) -> None:
        for member in self._members:
            member.close()

    def measure(self, time_limit: float) -> tuple[Record | None, PointFailure | None]:
        """Return the point's record, or the failure."""
        watch = _Watch(len(self._members), monotonic() + time_limit)
        with DefaultSelector() as selector:
            for rank, member in enumerate(self._members):
                selector.register(member, EVENT_READ, rank)
            while not watch.over():
                ready = {key.data for key, _ in selector.select(watch.patience())}
                for key in list(selector.get_map().values()):
                    member = self._members[key.data]
                    for message in member.read() if key.data in ready else member.overdue():
                        watch.receive(key.data, message)
                        if "ended" in message:
                            selector.unregister(key.fileobj)
        failure = watch.failure() or self._missing_results(watch, time_limit)
        if failure is None:
            return self._combined(watch.records), None
        failure, measured = self._with_rank(failure), watch.measured()
        if len(measured) < len(self._members) or failure.lost or failure.signal in ENDED_ON_PURPOSE:
            return None, failure
        unprofiled = Profile(bottleneck=Bottleneck(reason=f"profiling failed: {failure.reason}"))
        return self._combined(measured).model_copy(update={"profile": unprofiled}), None

    def tail(self) -> list[str]:
        """Return the last lines of the output of rank 0's worker."""
        return self._members[0].tail()

    def _missing_results(self, watch: _Watch, time_limit: float) -> PointFailure | None:
        """Return the failure of the ranks without a result, with their stacks; None if all have one."""
        missing = [rank for rank in range(len(self._members)) if rank not in watch.records]
        if not missing:
            return None
        silent = [rank for rank in missing if watch.silent(rank)]
        late = silent or watch.latest(missing)
        lines = [line for rank in late for line in self._heading(rank, late) + self._members[rank].tail_and_stack()]
        (first, *others) = late
        if silent:
            reason = f"hung: no heartbeat for {watch.silence(late[0]):g} s"
        else:
            reason = f"hung: no result within {time_limit:g} s" + watch.position(first)
        if others:
            return PointFailure(None, f"ranks {', '.join(map(str, late))} {reason}", lines)
        return PointFailure(first, reason, lines)

    def _heading(self, rank: int, ranks: Sequence[int]) -> list[str]:
        return [f"rank {rank}:"] if len(ranks) > 1 else []

    def _with_rank(self, failure: PointFailure) -> PointFailure:
        if len(self._members) == 1 or failure.rank is None:
            return failure
        return failure._replace(reason=f"rank {failure.rank} on node {self._nodes[failure.rank]}: {failure.reason}")

    def _combined(self, records: Mapping[int, Record]) -> Record:
        if len(records) == 1:
            return records[0]
        ranks = [
            RankRecord(
                rank=rank,
                node=self._nodes[rank],
                summary=record.timing.summary if record.timing else None,
                metrics=record.metrics,
                noise=record.noise,
                seen=record.seen,
            )
            for rank, record in sorted(records.items())
        ]
        first = records[0]
        observed = [rank.seen for rank in ranks if rank.seen]
        parts = None
        if first.timing and len(observed) == len(ranks):
            parts = split_step(first.timing.summary.median, observed, collective_s(first), launching(first))
        profile = first.profile
        if profile and parts:
            slowest = [max(seconds) for seconds in zip(*(rank.apart_s for rank in observed), strict=False)]
            without = compare_steps(first.timing.steady if first.timing else None, [slowest])
            verdict = checked(with_exchange(profile.bottleneck, parts), {"communication": without})
            profile = profile.model_copy(update={"bottleneck": verdict})
        metrics = first.metrics | energy_of_all(ranks, first.point.device)
        known = {name: metric for name, metric in metrics.items() if metric is not None}
        return first.model_copy(update={"ranks": ranks, "parts": parts, "profile": profile, "metrics": known})


def energy_of_all(ranks: Sequence[RankRecord], device: Device) -> dict[str, Metric | None]:
    """Return the sum of each energy metric over the ranks; None if a rank lacks the metric.

    Ranks with a GPU each are all added; ranks of one host read the same CPU counters, which are added once.
    """
    one_of_each_host = list({rank.node: rank for rank in reversed(ranks)}.values())
    readers = ranks if device_kind(device).card_per_rank else one_of_each_host
    totals: dict[str, Metric | None] = {}
    for name in sorted({name for rank in ranks for name in rank.metrics if name.startswith("energy_per_")}):
        read = [rank.metrics[name] for rank in readers if name in rank.metrics]
        complete = len(read) == len(readers)
        totals[name] = Metric(sum(metric.value for metric in read), read[0].unit) if complete else None
    return totals


def collective_s(record: Record) -> float | None:
    """Return the seconds of collective communication in a traced step; None without a trace or communication."""
    breakdown = _breakdown(record)
    return breakdown.parts["collective"] or None if breakdown else None


def launching(record: Record) -> float | None:
    """Return the share of launch time in a traced step without communication and input wait; None without a trace."""
    breakdown = _breakdown(record)
    if breakdown is None:
        return None
    launch = sum(breakdown.parts[part] for part in LAUNCHING)
    rest = breakdown.step_s - breakdown.parts["collective"] - breakdown.parts["input_wait"]
    return launch / rest if rest > 0 else None


def _breakdown(record: Record) -> Breakdown | None:
    trace = record.profile and record.profile.trace
    return trace.breakdown if trace else None


class _Watch:
    """Messages of each rank, and the deadline."""

    def __init__(self, size: int, deadline: float) -> None:
        self._size, self._deadline = size, deadline
        self._begin = monotonic()
        self.records: dict[int, Record] = {}
        self._before_profiling: dict[int, Record] = {}
        self._failures: list[PointFailure] = []
        self._heartbeats: dict[int, dict[str, Any]] = {}
        self._heard: dict[int, float] = {}

    def receive(self, rank: int, message: Message) -> None:
        self._heard[rank] = monotonic()
        match message:
            case {"heartbeat": {"stage": str(), "steps": int()} as heartbeat}:
                self._heartbeats[rank] = heartbeat
            case {"record": Record() as record} | {"measured": Record() as record}:
                if "measured" in message:
                    self._before_profiling[rank] = record
                    return
                self.records[rank] = record
                # The other ranks of a larger team now wait in vain.
                if self._size > 1 and record.status != "measured":
                    reason, tail = str(record.reason), record.output_tail
                    self._await_others(PointFailure(rank, reason, tail, status=record.status))
            case {"ended": reason, "signal": signal, "tail": tail} if rank not in self.records:
                self._await_others(PointFailure(rank, reason, tail, signal, lost=bool(message.get("lost"))))

    def _await_others(self, failure: PointFailure) -> None:
        self._failures.append(failure)
        self._deadline = min(self._deadline, monotonic() + (GRACE_SECONDS if self._size > 1 else 0.0))

    def measured(self) -> dict[int, Record]:
        """Return the measured records by rank, with or without a profile."""
        last = {rank: record for rank, record in self.records.items() if record.status == "measured"}
        return self._before_profiling | last

    def over(self) -> bool:
        all_reported = len(self.records.keys() | {failure.rank for failure in self._failures}) == self._size
        hung = any(self.silent(rank) for rank in range(self._size) if rank not in self.records)
        return all_reported or hung or monotonic() >= self._deadline

    def patience(self) -> float:
        """Return the time in seconds until the next check."""
        left = max(0.0, self._deadline - monotonic())
        return left if self._size == 1 else min(1.0, left)

    def failure(self) -> PointFailure | None:
        """Return the likely cause: a died rank before errors (survivors report lost connections), skips last."""
        causes = sorted(self._failures, key=lambda t: (t.status == "skipped", t.signal is None and not t.lost))
        return causes[0] if causes else None

    def silent(self, rank: int) -> bool:
        return self._size > 1 and monotonic() - self._heard.get(rank, self._begin) > self.silence(rank)

    def silence(self, rank: int) -> float:
        """Return the seconds without a heartbeat after which the rank counts as hung."""
        return SILENCE_SECONDS if self._heartbeats.get(rank, {"steps": 0})["steps"] else SILENCE_BEFORE_STEPS

    def latest(self, ranks: Sequence[int]) -> list[int]:
        """Return the ranks that started the fewest steps, for which the others wait; all ranks if they are equal."""
        if len(ranks) == 1 or not self._heartbeats:
            return list(ranks)
        steps = {rank: self._heartbeats.get(rank, {"steps": 0})["steps"] for rank in ranks}
        return [rank for rank in ranks if steps[rank] == min(steps.values())]

    def position(self, rank: int) -> str:
        heartbeat = self._heartbeats.get(rank)
        return (
            f", in step {heartbeat['steps']}, at its {heartbeat['stage']}" if heartbeat and heartbeat["steps"] else ""
        )


def failed(point: Point, failure: PointFailure, started: datetime, **fields: Any) -> Record:
    """Return the failed or skipped record of a point."""
    return Record(
        point=point,
        status=failure.status,
        reason=failure.reason,
        output_tail=failure.tail,
        started=started,
        elapsed_s=max(0.0, (datetime.now(UTC) - started).total_seconds()),
        **fields,
    )
