"""Tests of the bandwidth probe of each CPU: slower CPUs and robustness against disturbances."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.profiling.machine import cpu_probe
from accelbench.profiling.machine.cpu_probe import best_rates, format_slower_cpus, probe_cpus, slower_cpus
from accelbench.profiling.records.environment import CoreKind

RATES = st.dictionaries(st.integers(0, 63), st.floats(1e9, 1e12), min_size=1)


def fake_cpus(rates: dict[int, float], disturbed: Callable[[int, int], bool]) -> tuple[list[int], Callable[..., float]]:
    """Return CPUs and a measuring function with these rates, halved where `disturbed(cpu, number of the call)`."""
    calls: dict[int, int] = {}

    def measure(cpu: int, seconds: float) -> float:
        calls[cpu] = calls.get(cpu, -1) + 1
        return rates[cpu] / (2 if disturbed(cpu, calls[cpu]) else 1)

    return list(rates), measure


def test_a_slower_cpu_is_named_with_its_ratio() -> None:
    found = best_rates(*fake_cpus({0: 250e9, 1: 140e9, 2: 245e9}, lambda cpu, number: False))
    assert slower_cpus(found) == {1: pytest.approx(250 / 140)}
    assert format_slower_cpus(found) == "CPU 1 ×1.79 slower than CPU 0"


def test_a_difference_within_the_noise_of_the_probe_is_ignored() -> None:
    assert format_slower_cpus({0: 250e9, 1: 240e9}) is None
    assert format_slower_cpus({}) is None


def test_a_cpu_that_is_disturbed_at_first_is_measured_again() -> None:
    found = best_rates(*fake_cpus({0: 250e9, 1: 250e9}, lambda cpu, number: cpu == 1 and number < 4))
    assert slower_cpus(found) == {}


@given(RATES)
def test_the_fastest_cpu_is_never_named_and_ratios_are_above_one(rates: dict[int, float]) -> None:
    slow = slower_cpus(rates)
    assert max(rates, key=rates.__getitem__) not in slow
    assert all(ratio > 1 for ratio in slow.values())


def test_the_probe_measures_every_usable_cpu_and_restores_the_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_probe, "PROBE_SECONDS", 0.01)
    before = os.sched_getaffinity(0)
    found = probe_cpus(192 << 10)
    assert os.sched_getaffinity(0) == before
    assert set(found) == (before if len(before) > 1 else set())
    assert all(rate > 1e8 for rate in found.values())


def test_a_cpu_is_compared_with_the_ones_of_its_kind() -> None:
    kinds = [CoreKind(name="P-core", cpus=[0, 1, 2]), CoreKind(name="E-core", cpus=[4, 5, 6])]
    found = {0: 300e9, 1: 200e9, 4: 100e9, 5: 99e9}
    assert slower_cpus(found, kinds) == {1: pytest.approx(1.5)}
    assert format_slower_cpus(found, kinds) == "CPU 1 ×1.50 slower than CPU 0"
    assert slower_cpus({4: 100e9}, kinds) == {}
