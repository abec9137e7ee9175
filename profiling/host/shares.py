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
"""Minimum number of stacks for computing shares."""


def step_thread_shares(stacks: Mapping[WindowKind, Stacks], thread: int, busy: float | None = None) -> Shares | None:
    """Return the shares of a Python thread's wall time by category; None if it has too few samples.

    `busy` is the share of the wall time in which the thread ran or was runnable, from the kernel's counters; without
    it the samples of running threads are counted. The rest of the time counts as `input` if the thread's stack is in
    the data pipeline, else as `waiting`.
    """
    observed = shares_of(stacks.get("all", {}), thread) or shares_of(stacks.get("native", {}), thread)
    if observed is None:
        return None
    running = running_shares(stacks, thread)
    if busy is None:
        running_samples, all_samples = count(stacks.get("running", {}), thread), count(stacks.get("all", {}), thread)
        busy = running_samples / all_samples if all_samples else 1.0 - observed["waiting"]
    busy = min(1.0, max(0.0, busy))
    ran = {category: busy * (running or observed)[category] for category in CATEGORIES}
    for_data = max(0.0, observed["input"] - ran["input"])
    for_others = sum(max(0.0, observed[category] - ran[category]) for category in CATEGORIES if category != "input")
    data_part = for_data / (for_data + for_others) if for_data + for_others > 0 else 0.0
    ran["input"] += (1 - busy) * data_part
    ran["waiting"] += (1 - busy) * (1 - data_part)
    return ran


def running_shares(stacks: Mapping[WindowKind, Stacks], thread: int) -> Shares | None:
    """Return the shares of a thread's running time, from samples without native frames, corrected by samples with them.

    A sample with native frames gives both its category and the one that its Python frames alone would give: a matrix
    product of NumPy is "dispatch" without native frames. Returns None without samples.
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
    """Return the shares of all threads' CPU time by category; None if it is zero."""
    seconds: defaultdict[Category, float] = defaultdict(float)
    for thread in threads:
        for category, share in thread.shares.items():
            seconds[category] += thread.cpu_s * share
    return _normalized(seconds, at_least=1e-9)


def thread_shares(
    stacks: Mapping[WindowKind, Stacks], threads: Mapping[int, ThreadTotals], process_name: str, device: Device
) -> list[ThreadShare]:
    """Return the shares of each Python thread, and of native threads grouped by name; the busiest first."""
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
    # Without a sample of the running thread, all samples of the thread count.
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
    """Return the shares of one thread's stacks by category; None if there are fewer than `at_least`."""
    return _normalized(_counted({s: n for s, n in stacks.items() if s.thread == thread}, classify), at_least)


def data_makers(stacks: Stacks, step_thread: int, samples: int) -> float | None:
    """Return the mean number of threads that prepared data, without the step thread; None without samples.

    It is near 1 for a generator that is always busy: a model that waits meanwhile waits for data.
    """
    making = sum(n for stack, n in stacks.items() if stack.thread != step_thread and classify(stack) == "input")
    return making / samples if samples else None


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
