"""The probe of each CPU: which are named as slower, and what does not deceive it."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.profiling.machine import cpu_probe
from accelbench.profiling.machine.cpu_probe import best_looks, probe_cpus, slower_cpus, slower_in_words

RATES = st.dictionaries(st.integers(0, 63), st.floats(1e9, 1e12), min_size=1)


def looks(rates: dict[int, float], disturbed: Callable[[int, int], bool]) -> tuple[list[int], Callable[..., float]]:
    """CPUs of these rates, any of which is at half its rate in the looks, by their number, that are disturbed."""
    seen: dict[int, int] = {}

    def look(cpu: int, seconds: float) -> float:
        seen[cpu] = seen.get(cpu, -1) + 1
        return rates[cpu] / (2 if disturbed(cpu, seen[cpu]) else 1)

    return list(rates), look


def test_a_cpu_at_half_the_bandwidth_is_named_with_its_ratio() -> None:
    found = best_looks(*looks({0: 250e9, 1: 140e9, 2: 245e9}, lambda cpu, number: False))
    assert slower_cpus(found) == {1: pytest.approx(250 / 140)}
    assert slower_in_words(found) == "CPU 1 ×1.79 slower than CPU 0"


def test_cpus_that_differ_by_less_than_the_probe_itself_are_alike() -> None:
    assert slower_in_words({0: 250e9, 1: 240e9}) is None
    assert slower_in_words({}) is None


def test_a_cpu_that_is_disturbed_in_all_first_looks_gets_further_ones() -> None:
    found = best_looks(*looks({0: 250e9, 1: 250e9}, lambda cpu, number: cpu == 1 and number < 4))
    assert slower_cpus(found) == {}


@given(RATES)
def test_the_fastest_cpu_is_never_named_and_ratios_are_above_one(rates: dict[int, float]) -> None:
    slow = slower_cpus(rates)
    assert max(rates, key=rates.__getitem__) not in slow
    assert all(ratio > 1 for ratio in slow.values())


def test_the_probe_sees_every_usable_cpu_and_leaves_the_thread_where_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_probe, "PROBE_SECONDS", 0.01)
    before = os.sched_getaffinity(0)
    found = probe_cpus(192 << 10)
    assert os.sched_getaffinity(0) == before
    assert set(found) == (before if len(before) > 1 else set())
    assert all(rate > 1e8 for rate in found.values())
