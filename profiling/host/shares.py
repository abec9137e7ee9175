"""Shares of host time: wall time of the thread that drives the steps, and CPU time of all threads.

py-spy samples the stacks of Python threads, and hardly those of the frameworks' native threads; the kernel accounts the
CPU time of every thread, without stacks. The shares combine both.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from accelbench.profiling.host.rules import classify, classify_thread
from accelbench.profiling.host.stacks import Stack, Stacks
from accelbench.profiling.host.threads import ThreadTotals
from accelbench.profiling.records.host import CATEGORIES, Category, Shares, ThreadShare, WindowKind
from accelbench.profiling.records.point import Device

MIN_STACKS = 5
"""The least number of stacks that shares are told from."""


def step_thread_shares(stacks: Mapping[WindowKind, Stacks], thread: int, busy: float | None = None) -> Shares | None:
    """Return where the wall time of that Python thread went; None if it was seen too rarely.

    `busy` is the share of the wall time in which it ran or wanted to, by the kernel's account; without it the looks at
    running threads are counted. When it does not run, it waits: for data where its stack says so, else `waiting`.
    """
    seen = shares_of(stacks.get("all", {}), thread) or shares_of(stacks.get("native", {}), thread)
    if seen is None:
        return None
    running = running_shares(stacks, thread)
    if busy is None:
        running_looks, all_looks = count(stacks.get("running", {}), thread), count(stacks.get("all", {}), thread)
        busy = running_looks / all_looks if all_looks else 1.0 - seen["waiting"]
    busy = min(1.0, max(0.0, busy))
    ran = {category: busy * (running or seen)[category] for category in CATEGORIES}
    for_data = max(0.0, seen["input"] - ran["input"])
    for_others = sum(max(0.0, seen[category] - ran[category]) for category in CATEGORIES if category != "input")
    data_part = for_data / (for_data + for_others) if for_data + for_others > 0 else 0.0
    ran["input"] += (1 - busy) * data_part
    ran["waiting"] += (1 - busy) * (1 - data_part)
    return ran


def running_shares(stacks: Mapping[WindowKind, Stacks], thread: int) -> Shares | None:
    """Return what that thread did while it ran, by looks without native frames, corrected by those with them.

    Every look with native frames tells what a look without would have taken it for: a matrix product of NumPy's is
    "dispatch" until its frames show. None if there is nothing to tell from.
    """
    native = {stack: n for stack, n in stacks.get("native", {}).items() if stack.thread == thread}
    native = {stack: n for stack, n in native.items() if classify(stack) != "waiting"}
    plain = shares_of(stacks.get("running", {}), thread, at_least=1)
    if plain is None:
        return _normalized(_counted(native, classify))
    corrected: defaultdict[Category, float] = defaultdict(float)
    for category, share in plain.items():
        same = {stack: n for stack, n in native.items() if classify(stack.python_only()) == category}
        truth = _normalized(_counted(same, classify)) or {category: 1.0}
        for true_category, part in truth.items():
            corrected[true_category] += share * part
    return _normalized(corrected)


def cpu_shares(threads: list[ThreadShare]) -> Shares | None:
    """Return where the CPU time of all threads went; None if none was used."""
    seconds: defaultdict[Category, float] = defaultdict(float)
    for thread in threads:
        for category, share in thread.shares.items():
            seconds[category] += thread.cpu_s * share
    return _normalized(seconds, at_least=1e-9)


def thread_shares(
    stacks: Mapping[WindowKind, Stacks], threads: Mapping[int, ThreadTotals], process_name: str, device: Device
) -> list[ThreadShare]:
    """Return every Python thread, and the native ones by their names; the busiest first."""
    python = {stack.thread: stack.thread_name for kind in stacks.values() for stack in kind}
    groups: dict[str, list[tuple[ThreadTotals, Shares]]] = {}
    for number, totals in threads.items():
        if number in python:
            name = python[number] or f"thread {number}"
            shares = _python_thread(stacks, number, name)
        else:
            name = "unnamed native threads" if totals.name == process_name else totals.name
            shares = _whole(classify_thread(totals.name, process_name, device))
        groups.setdefault(name, []).append((totals, shares))
    return sorted((_group(name, members) for name, members in groups.items()), key=lambda group: -group.cpu_s)


def _python_thread(stacks: Mapping[WindowKind, Stacks], thread: int, name: str) -> Shares:
    by_name = classify_thread(name, unnamed="", device="cpu")
    if by_name != "other":
        return _whole(by_name)
    # One that ran so seldom that no look found it running did what it was seen at.
    return running_shares(stacks, thread) or shares_of(stacks.get("all", {}), thread, at_least=1) or _whole("other")


def _group(name: str, members: list[tuple[ThreadTotals, Shares]]) -> ThreadShare:
    cpu_s = sum(totals.cpu_s for totals, _ in members)
    waits = [totals.wait_s for totals, _ in members if totals.wait_s is not None]
    used: defaultdict[Category, float] = defaultdict(float)
    for totals, shares in members:
        for category, share in shares.items():
            used[category] += totals.cpu_s * share
    shares = _normalized(used, at_least=1e-9) or members[0][1]
    return ThreadShare(
        name=name, threads=len(members), cpu_s=cpu_s, wait_s=sum(waits) if waits else None, shares=shares
    )


def shares_of(stacks: Stacks, thread: int, at_least: int = MIN_STACKS) -> Shares | None:
    """Return the categories of one thread's stacks; None if there are too few."""
    return _normalized(_counted({s: n for s, n in stacks.items() if s.thread == thread}, classify), at_least)


def data_makers(stacks: Stacks, step_thread: int, looks: int) -> float | None:
    """Return how many threads beside the step thread were making data, on average; None if nobody looked.

    Near 1 for a generator that never rests: a model that waits meanwhile waits for data.
    """
    making = sum(n for stack, n in stacks.items() if stack.thread != step_thread and classify(stack) == "input")
    return making / looks if looks else None


def count(stacks: Stacks, thread: int) -> int:
    return sum(n for stack, n in stacks.items() if stack.thread == thread)


def _counted(stacks: Stacks, rule: Callable[[Stack], Category]) -> Counter[Category]:
    counted: Counter[Category] = Counter()
    for stack, times in stacks.items():
        counted[rule(stack)] += times
    return counted


def _normalized(amounts: Mapping[Category, float], at_least: float = 1) -> Shares | None:
    total = sum(amounts.values())
    if total < at_least:
        return None
    return {category: amounts.get(category, 0) / total for category in CATEGORIES}


def _whole(category: Category) -> Shares:
    return {each: float(each == category) for each in CATEGORIES}
