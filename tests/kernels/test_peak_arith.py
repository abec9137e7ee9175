"""Arithmetic peak: the counted operations are executed, in every lane and step."""

from __future__ import annotations

import re

import numpy as np
import pytest

from accelbench.kernels.lib.cpu.clock import CYCLES_PER_STEP, integer_chain
from accelbench.kernels.lib.cpu.simd import fma_chains, lanes
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.kernels.lib.gpu.compilation import architectures, compile_kernel
from accelbench.kernels.peak_arith import cpu_fma, gpu_fma, peak_arith
from accelbench.profiling.records.point import Point

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
    found = integer_chain(np.uint64(x), np.uint64(a), np.uint64(b), 37)
    for _ in range(37 * CYCLES_PER_STEP // 2):
        x = ((x + a) % 2**64) ^ b
    assert int(found) == x


def test_the_clock_and_the_flop_per_cycle_are_reported():
    task = peak_arith(point("float64", "one"))
    metrics = task.metrics(1.0)
    assert metrics["clock"].unit == "MHz"
    assert metrics["clock"].value > 0
    cycles = metrics["clock"].value * 1e6
    assert metrics["arithmetic per core"].value == pytest.approx(task.work.flops / cycles)


@pytest.mark.parametrize("dtype", list(gpu_fma.FORMATS))
def test_all_sums_on_the_device_are_exact_whole_numbers(dtype):
    kind = gpu_fma.FORMATS[dtype]
    exact = {"float64": 2**53, "float32": 2**24, "float16": 2**11, "bfloat16": 2**8}[dtype]
    assert kind.largest_start + gpu_fma.STEPS * kind.largest_factors[0] * kind.largest_factors[1] <= exact
    starts, factors = gpu_fma.draw(np.random.default_rng(0), 4096, dtype)
    assert 0.9 * kind.largest_start < np.abs(starts).max() <= kind.largest_start
    assert [np.abs(factors[i]).max() for i in range(2)] == list(kind.largest_factors)
    assert (factors != 0).all()
    assert (factors.min(axis=(1, 2)) < 0).all()


def test_the_device_packs_numbers_as_the_hardware_does():
    numbers = np.array([[[-128, 3], [1, 0]]])
    assert gpu_fma.to_words(numbers, "bfloat16").tolist() == [[0x4040C300, 0x00003F80]]
    assert gpu_fma.to_words(numbers, "float16").tolist() == [[0x4200D800, 0x00003C00]]
    assert gpu_fma.to_words(numbers[..., :1], "float32").tolist() == [[0xC3000000, 0x3F800000]]
    assert gpu_fma.to_words(numbers[..., :1], "float64").tolist() == [[0xC060000000000000, 0x3FF0000000000000]]
    signs = [gpu_fma.FORMATS[dtype].sign for dtype in ("float64", "float32", "float16")]
    assert signs == [1 << 63, 1 << 31, 0x80008000]


@pytest.mark.parametrize(
    ("kernel", "capability"),
    [
        pytest.param(kernel, capability, id=f"{kernel.name}-{capability}")
        for kernel in gpu_fma.device_code()
        for capability in architectures(kernel)
    ],
)
def test_the_loop_on_the_device_is_of_little_but_fma(kernel, capability):
    dtype = kernel.name.split()[-1]
    code = compile_kernel(kernel, capability)
    operation = {"float64": r"DFMA", "float32": r"FFMA", "float16": r"HFMA2(\.MMA)?"}.get(
        dtype, r"HFMA2(\.MMA)?\.BF16_V2"
    )
    fma = [line for line in code.loop if re.match(rf"{operation} ", line)]
    assert len(fma) == gpu_fma.STEPS * gpu_fma.CHAINS
    assert len(fma) / len(code.loop) >= 0.97
    assert not any(word in line for line in code.loop for word in ("LDG", "STG", "LDS", "STS", "LDL", "STL", "LDC"))
    assert code.registers <= 65536 // gpu_fma.THREADS
