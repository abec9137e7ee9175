"""The arithmetic ceiling counts what was really computed, to the last lane and step."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.peak_arith import cpu_fma, peak_arith
from kernels.simd import fma_chains, lanes
from kernels.threads import thread_count
from profiling.benchmark import Point

CASES = [(dtype, cores) for dtype in ("float32", "float64") for cores in ("one", "all")]


def point(dtype, cores):
    return Point("peak-arith", "cpu", {"dtype": dtype, "cores": cores}, seed=3)


@pytest.mark.parametrize(("dtype", "cores"), CASES)
def test_every_lane_of_every_chain_is_exact_also_after_many_executions(dtype, cores):
    task = peak_arith(point(dtype, cores))
    for _ in range(3):
        task.run()
    verification = task.verify()
    assert verification.passed
    assert verification.error == 0
    assert verification.tolerance == 0


def test_all_cores_do_as_many_times_the_work_of_one():
    one, every = (peak_arith(point("float32", cores)).work.flops for cores in ("one", "all"))
    width = lanes(4)
    assert one == cpu_fma.ROUNDS * cpu_fma.STEPS * fma_chains() * width * 2
    assert every == thread_count() * one


@pytest.mark.parametrize("error", ["one step too few", "one round left out", "one lane wrong"])
def test_work_left_out_fails_the_verification(monkeypatch, error):
    honest = cpu_fma.run_rounds

    def dishonest(sums, factors, steps, stride):
        if error == "one step too few":
            honest(sums, factors, steps - 1, stride)
        elif error == "one round left out":
            honest(sums[stride:], factors, steps, stride)
        else:
            honest(sums, factors, steps, stride)
            sums[stride // 2] += 1

    monkeypatch.setattr(cpu_fma, "run_rounds", dishonest)
    assert not peak_arith(point("float32", "one")).verify().passed


def test_the_integer_chain_makes_sixteen_dependent_operations_per_step():
    x, a, b = 12345, 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
    found = cpu_fma.integer_chain(np.uint64(x), np.uint64(a), np.uint64(b), 37)
    for _ in range(37 * cpu_fma.CYCLES_PER_STEP // 2):
        x = ((x + a) % 2**64) ^ b
    assert int(found) == x


def test_the_clock_and_the_flop_per_cycle_stand_beside_the_rate():
    task = peak_arith(point("float64", "one"))
    metrics = task.metrics(1.0)
    assert metrics["clock"].unit == "MHz"
    assert metrics["clock"].value > 0
    cycles = metrics["clock"].value * 1e6
    assert metrics["FLOP per cycle per core"].value == pytest.approx(task.work.flops / cycles)
