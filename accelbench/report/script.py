"""Part of the page on a user's script: wait for input, lines of its code, ranks and memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from accelbench.environment.fields import LabelledValue
from accelbench.output.format import UNKNOWN, percent, read
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.script import (
    CodeLine,
    LargeVariable,
    ScriptMemory,
    ScriptRank,
    SlowRank,
)
from accelbench.report.script_answer import compilation_lines, host_time, rank_lines, thread_name, waiting_lines


@dataclass(frozen=True)
class RankRow:
    rank: int
    steps: str
    times: tuple[tuple[str, bool], ...]
    """Time of each of `ScriptPart.rank_parts`, and whether the rank is slow in it."""


@dataclass(frozen=True)
class ScriptPart:
    """Profile of a script as texts for the page."""

    on_input: tuple[str, ...]
    """Sentences on the wait for input, and on further compilations."""
    code: tuple[tuple[str, tuple[CodeLine, ...]], ...]
    """Lines of the script's own code, by what they are shares of."""
    on_ranks: tuple[str, ...]
    rank_parts: tuple[str, ...]
    """Parts of a step that were timed in the ranks."""
    ranks: tuple[RankRow, ...]
    memory: tuple[LabelledValue, ...]
    largest: tuple[tuple[LargeVariable, str], ...]
    """Largest variables, each with its size, if the script ended out of memory."""


def script_part(record: Record) -> ScriptPart | None:
    """Return the part of a record's script; None if it is not of a script."""
    script = record.profile.script if record.profile else None
    if script is None:
        return None
    rank_parts = tuple(dict.fromkeys(part for each in script.ranks for part in each.parts))
    code = (
        ("the wait for the next batch", script.waiting_lines),
        (host_time(script), script.host_lines),
        *((thread_name(each), each.lines) for each in script.thread_lines),
    )
    return ScriptPart(
        on_input=(*waiting_lines(script), *compilation_lines(script)),
        code=tuple((what, tuple(lines)) for what, lines in code if lines),
        on_ranks=tuple(rank_lines(script, record.timing)),
        rank_parts=rank_parts,
        ranks=tuple(_rank(each, rank_parts, script.slow_rank) for each in script.ranks),
        memory=tuple(_memory(script.memory)),
        largest=tuple((each, str(read(each.bytes, "B"))) for each in script.memory.largest),
    )


def _rank(each: ScriptRank, parts: Iterable[str], slow: SlowRank | None) -> RankRow:
    times: dict[str, str] = {part: str(read(time, "s")) for part, time in each.parts.items()}
    slow_part = slow.part if slow and slow.rank == each.rank else None
    return RankRow(each.rank, f"{each.steps:,}", tuple((times.get(part, UNKNOWN), part == slow_part) for part in parts))


def _memory(memory: ScriptMemory) -> Iterator[LabelledValue]:
    if memory.device_peak is not None:
        limit = f" of {read(memory.device_limit, 'B')}" if memory.device_limit else ""
        yield LabelledValue("peak on the device", f"{read(memory.device_peak, 'B')}{limit}")
    if memory.device_reserved is not None:
        unused = "" if memory.fragmentation is None else f", {percent(memory.fragmentation)} of it unused at the peak"
        yield LabelledValue("reserved on the device", f"{read(memory.device_reserved, 'B')}{unused}")
    if memory.host_peak is not None:
        yield LabelledValue("peak on the host", f"{read(memory.host_peak, 'B')}, without child processes")
    if memory.exhausted:
        yield LabelledValue("out of memory", memory.exhausted)
