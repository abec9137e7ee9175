"""The workers that measure one point together, one in each rank, and what becomes of the point if one of them fails.

A point of one process has a team of one. Its record is that of rank 0, with what the others saw beside it. The first
rank that dies, fails or falls silent ends the others: a rank alone would wait for it for ever. If that happens while a
training is profiled, after all ranks have measured it, it costs the profile and not the figures.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from selectors import EVENT_READ, DefaultSelector
from time import monotonic
from typing import Any, NamedTuple, Protocol

from accelbench.profiling.analysis.step_parts import take_apart, with_exchange
from accelbench.profiling.devices import device_kind
from accelbench.profiling.ranks.channel import Message
from accelbench.profiling.records.bottleneck import Bottleneck
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.record import Profile, RankRecord, Record, Status
from accelbench.profiling.records.trace import LAUNCHING, Breakdown

GRACE_SECONDS = 3.0
"""The seconds for the others' trouble to arrive after one rank's: what died first is often not what is heard first."""
SILENCE_SECONDS, SILENCE_BEFORE_STEPS = 30.0, 120.0
"""The seconds without a sign of life after which a rank of several hangs; workers give one every second.

Before the first step it may be longer: a framework that is loaded, or compiles, can hold Python's lock for a while.
"""
ENDED_ON_PURPOSE = (signal.SIGTERM, signal.SIGINT)
"""The signals by which a whole job is ended: what it was about to measure is measured when it goes on."""


class Member(Protocol):
    """One rank's worker, here or elsewhere."""

    def fileno(self) -> int:
        """Return the descriptor to wait on."""

    def read(self) -> list[Message]:
        """Return the messages that came, their records validated; `ended` is the last."""

    def overdue(self) -> list[Message]:
        """Return `ended` where whoever tells of the worker gives no sign of life, and nothing as long as it does."""

    def tail(self) -> list[str]:
        """Return the last lines that the worker printed, also once it is closed; empty for another rank's."""

    def last_words(self) -> list[str]:
        """Return what the worker printed last, and where it stands."""

    def close(self) -> None:
        """End the worker."""


class Trouble(NamedTuple):
    """The reason why a point has no figures: which rank, what happened, and what it last printed."""

    rank: int | None
    reason: str
    tail: list[str]
    signal: int | None = None
    status: Status = "failed"
    lost: bool = False
    """Whether it is not the worker that has gone, but its whole rank."""


class Team:
    """The members' workers, running."""

    def __init__(self, members: Sequence[Member], nodes: Sequence[int]) -> None:
        self._members = members
        self._nodes = nodes

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *error: object) -> None:
        for member in self._members:
            member.close()

    def measure(self, time_limit: float) -> tuple[Record | None, Trouble | None]:
        """Return the point's record, or what came in its way."""
        watch = _Watch(len(self._members), monotonic() + time_limit)
        with DefaultSelector() as selector:
            for rank, member in enumerate(self._members):
                selector.register(member, EVENT_READ, rank)
            while not watch.over():
                ready = {key.data for key, _ in selector.select(watch.patience())}
                for key in list(selector.get_map().values()):
                    member = self._members[key.data]
                    for message in member.read() if key.data in ready else member.overdue():
                        watch.hear(key.data, message)
                        if "ended" in message:
                            selector.unregister(key.fileobj)
        trouble = watch.trouble() or self._hung(watch, time_limit)
        if trouble is None:
            return self._together(watch.records), None
        trouble, measured = self._named(trouble), watch.measured()
        if len(measured) < len(self._members) or trouble.lost or trouble.signal in ENDED_ON_PURPOSE:
            return None, trouble
        unprofiled = Profile(bottleneck=Bottleneck(reason=f"profiling failed: {trouble.reason}"))
        return self._together(measured).model_copy(update={"profile": unprofiled}), None

    def tail(self) -> list[str]:
        """Return the last lines that rank 0's worker printed."""
        return self._members[0].tail()

    def _hung(self, watch: _Watch, time_limit: float) -> Trouble | None:
        """Return who did not come to an end, and where it stands."""
        missing = [rank for rank in range(len(self._members)) if rank not in watch.records]
        if not missing:
            return None
        silent = [rank for rank in missing if watch.silent(rank)]
        late = silent or watch.latest(missing)
        words = [line for rank in late for line in self._heading(rank, late) + self._members[rank].last_words()]
        (first, *others) = late
        if silent:
            reason = f"hung: no sign of life for {watch.silence(late[0]):g} s"
        else:
            reason = f"hung: no result within {time_limit:g} s" + watch.standing(first)
        if others:
            return Trouble(None, f"ranks {', '.join(map(str, late))} {reason}", words)
        return Trouble(first, reason, words)

    def _heading(self, rank: int, ranks: Sequence[int]) -> list[str]:
        return [f"rank {rank}:"] if len(ranks) > 1 else []

    def _named(self, trouble: Trouble) -> Trouble:
        if len(self._members) == 1 or trouble.rank is None:
            return trouble
        return trouble._replace(reason=f"rank {trouble.rank} on node {self._nodes[trouble.rank]}: {trouble.reason}")

    def _together(self, records: Mapping[int, Record]) -> Record:
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
        seen = [rank.seen for rank in ranks if rank.seen]
        parts = None
        if first.timing and len(seen) == len(ranks):
            parts = take_apart(first.timing.summary.median, seen, collective_s(first), launching(first))
        profile = first.profile
        if profile and parts:
            profile = profile.model_copy(update={"bottleneck": with_exchange(profile.bottleneck, parts)})
        metrics = first.metrics | energy_of_all(ranks, first.point.device)
        known = {name: metric for name, metric in metrics.items() if metric is not None}
        return first.model_copy(update={"ranks": ranks, "parts": parts, "profile": profile, "metrics": known})


def energy_of_all(ranks: Sequence[RankRecord], device: Device) -> dict[str, Metric | None]:
    """Return the sum of each energy metric over the ranks; None where one of them does not tell.

    A rank that has a card of its own reads that one; the ranks of a host all read the same CPUs, which count once.
    """
    one_of_each_host = list({rank.node: rank for rank in reversed(ranks)}.values())
    readers = ranks if device_kind(device).card_per_rank else one_of_each_host
    totals: dict[str, Metric | None] = {}
    for name in sorted({name for rank in ranks for name in rank.metrics if name.startswith("energy_per_")}):
        read = [rank.metrics[name] for rank in readers if name in rank.metrics]
        whole = len(read) == len(readers)
        totals[name] = Metric(sum(metric.value for metric in read), read[0].unit) if whole else None
    return totals


def collective_s(record: Record) -> float | None:
    """Return the seconds of a step's exchange that the trace shows; None where it shows none."""
    breakdown = _breakdown(record)
    return breakdown.parts["collective"] or None if breakdown else None


def launching(record: Record) -> float | None:
    """Return the share of launching in a traced step less exchange and input; None without a trace."""
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
    """The messages of each rank, and the time to stop listening."""

    def __init__(self, size: int, deadline: float) -> None:
        self._size, self._deadline = size, deadline
        self._begin = monotonic()
        self.records: dict[int, Record] = {}
        self._before_profiling: dict[int, Record] = {}
        self._troubles: list[Trouble] = []
        self._beats: dict[int, dict[str, Any]] = {}
        self._heard: dict[int, float] = {}

    def hear(self, rank: int, message: Message) -> None:
        self._heard[rank] = monotonic()
        match message:
            case {"beat": {"stage": str(), "steps": int()} as beat}:
                self._beats[rank] = beat
            case {"record": Record() as record} | {"measured": Record() as record}:
                if "measured" in message:
                    self._before_profiling[rank] = record
                    return
                self.records[rank] = record
                # A team of one is told all by its record; in a larger one the others now wait in vain.
                if self._size > 1 and record.status != "measured":
                    reason, tail = str(record.reason), record.output_tail
                    self._await_others(Trouble(rank, reason, tail, status=record.status))
            case {"ended": reason, "signal": signal, "tail": tail} if rank not in self.records:
                self._await_others(Trouble(rank, reason, tail, signal, lost=bool(message.get("lost"))))

    def _await_others(self, trouble: Trouble) -> None:
        self._troubles.append(trouble)
        self._deadline = min(self._deadline, monotonic() + (GRACE_SECONDS if self._size > 1 else 0.0))

    def measured(self) -> dict[int, Record]:
        """Return the records with figures, of the ranks that told theirs, with or without a profile."""
        last = {rank: record for rank, record in self.records.items() if record.status == "measured"}
        return self._before_profiling | last

    def over(self) -> bool:
        heard_of_all = len(self.records.keys() | {trouble.rank for trouble in self._troubles}) == self._size
        hung = any(self.silent(rank) for rank in range(self._size) if rank not in self.records)
        return heard_of_all or hung or monotonic() >= self._deadline

    def patience(self) -> float:
        """Return the seconds after which to look again."""
        left = max(0.0, self._deadline - monotonic())
        return left if self._size == 1 else min(1.0, left)

    def trouble(self) -> Trouble | None:
        """Return the first cause: a death before errors, since survivors complain of lost connections; a skip last."""
        causes = sorted(self._troubles, key=lambda t: (t.status == "skipped", t.signal is None and not t.lost))
        return causes[0] if causes else None

    def silent(self, rank: int) -> bool:
        return self._size > 1 and monotonic() - self._heard.get(rank, self._begin) > self.silence(rank)

    def silence(self, rank: int) -> float:
        """Return the seconds after which this rank hangs, if it says nothing."""
        return SILENCE_SECONDS if self._beats.get(rank, {"steps": 0})["steps"] else SILENCE_BEFORE_STEPS

    def latest(self, ranks: Sequence[int]) -> list[int]:
        """Return the ranks that began the fewest steps, where they differ: the others wait for them."""
        if len(ranks) == 1 or not self._beats:
            return list(ranks)
        steps = {rank: self._beats.get(rank, {"steps": 0})["steps"] for rank in ranks}
        return [rank for rank in ranks if steps[rank] == min(steps.values())]

    def standing(self, rank: int) -> str:
        beat = self._beats.get(rank)
        return f", in step {beat['steps']}, at its {beat['stage']}" if beat and beat["steps"] else ""


def failed(point: Point, trouble: Trouble, started: datetime, **fields: Any) -> Record:
    """Return the record of a point that its team did not measure."""
    return Record(
        point=point,
        status=trouble.status,
        reason=trouble.reason,
        output_tail=trouble.tail,
        started=started,
        elapsed_s=(datetime.now(UTC) - started).total_seconds(),
        **fields,
    )
