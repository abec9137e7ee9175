"""The arithmetic ceiling counts what was really computed, to the last lane and step."""

from __future__ import annotations

import ctypes
import re
import subprocess

import numpy as np
import pytest

from accelbench.kernels.lib.cpu.clock import CYCLES_PER_STEP, integer_chain
from accelbench.kernels.lib.cpu.simd import fma_chains, lanes
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.kernels.lib.gpu.compilation import CAPABILITIES, compile_kernel
from accelbench.kernels.peak_arith import cpu_fma, gpu_fma, peak_arith
from accelbench.profiling.records.point import Point
from tests.requirements import not_tested

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


def test_the_clock_and_the_flop_per_cycle_stand_beside_the_rate():
    task = peak_arith(point("float64", "one"))
    metrics = task.metrics(1.0)
    assert metrics["clock"].unit == "MHz"
    assert metrics["clock"].value > 0
    cycles = metrics["clock"].value * 1e6
    assert metrics["arithmetic per core"].value == pytest.approx(task.work.flops / cycles)


HOST = r"""
#include <cstring>
#define CUDA_ON_HOST
#define __global__
#define __launch_bounds__(threads)
struct { int x; } threadIdx, blockIdx, gridDim;
static long long clock64() { static long long now; return now += 100; }
static void __syncthreads() {}
static long long lost = -1;  // the number of the FMA that is left out
static long long made = 0;
"""
FMA = {
    "double": "static double fused(double a, double b, double sum) { return __builtin_fma(a, b, sum); }",
    "float": "static float fused(float a, float b, float sum) { return __builtin_fmaf(a, b, sum); }",
    # Products of whole numbers this small, and their sums, are exact in float: to narrow them cannot round.
    "f16x2": r"""
static unsigned half(unsigned a, unsigned b, unsigned sum) {
    unsigned short bits[3] = {(unsigned short)a, (unsigned short)b, (unsigned short)sum};
    _Float16 numbers[3];
    memcpy(numbers, bits, 6);
    const _Float16 result = (_Float16)((float)numbers[0] * (float)numbers[1] + (float)numbers[2]);
    memcpy(bits, &result, 2);
    return bits[0];
}""",
    "bf16x2": r"""
static unsigned half(unsigned a, unsigned b, unsigned sum) {
    unsigned bits[3] = {a << 16, b << 16, sum << 16};
    float numbers[3];
    memcpy(numbers, bits, 12);
    const float result = numbers[0] * numbers[1] + numbers[2];
    memcpy(bits, &result, 4);
    if (bits[0] & 0xffff) __builtin_trap();  // it was not exact
    return bits[0] >> 16;
}""",
}
BOTH_HALVES = r"""
static unsigned fused(unsigned a, unsigned b, unsigned sum) {
    return half(a >> 16, b >> 16, sum >> 16) << 16 | half(a & 0xffff, b & 0xffff, sum & 0xffff);
}"""
LAUNCH = r"""
static void add_product(WORD& sum, WORD a, WORD b) { if (made++ != lost) sum = fused(a, b, sum); }
#define run_chains run_chains_of_one_thread
"""
ALL_THREADS = r"""
#undef run_chains
extern "C" long long run_chains(int blocks, const WORD* starts, const WORD* factors, int turns, BITS* answers,
                                long long* cycles, long long left_out) {
    gridDim.x = blocks, made = 0, lost = left_out;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        for (threadIdx.x = THREADS; threadIdx.x-- > 0;)
            run_chains_of_one_thread(starts, factors, turns, answers, cycles);
    return made;
}
"""
BLOCKS, HOST_THREADS = 2, 64


@pytest.fixture(scope="module")
def run_on_host(tmp_path_factory):
    """`run(dtype, starts, factors, turns, left_out)`: each thread's answer, each block's cycles, and the FMAs made."""
    folder = tmp_path_factory.mktemp("peak-arith")
    libraries = {}

    def load(dtype):
        kind = gpu_fma.FORMATS[dtype]
        fma = FMA[kind.word] if kind.lanes == 1 else FMA[kind.instruction] + BOTH_HALVES
        source = folder / f"{dtype}.cpp"
        source.write_text(HOST + fma + LAUNCH + gpu_fma.SOURCE + ALL_THREADS)
        defined = [option for option in kind.options if not option.startswith("-DTHREADS")]
        command = ["g++", "-shared", "-fPIC", "-O2", *defined, f"-DTHREADS={HOST_THREADS}"]
        outcome = subprocess.run([*command, "-o", f"{source}.so", source], capture_output=True, text=True)
        if outcome.returncode != 0 and "_Float16" in outcome.stderr:
            not_tested("g++", "this one has no _Float16")
        assert outcome.returncode == 0, outcome.stderr
        return ctypes.CDLL(f"{source}.so")

    def run(dtype, starts, factors, turns, left_out=-1):
        if dtype not in libraries:
            libraries[dtype] = load(dtype)
        library, kind = libraries[dtype], gpu_fma.FORMATS[dtype]
        words = [gpu_fma.to_words(numbers, dtype) for numbers in (starts, factors)]
        answers, cycles = np.full(words[0].shape[1], 7, kind.bits), np.full(BLOCKS, -1, np.int64)
        library.run_chains.restype = ctypes.c_longlong
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*words, answers, cycles)]
        made = library.run_chains(BLOCKS, *pointers[:2], turns, *pointers[2:], ctypes.c_longlong(left_out))
        return answers, cycles, made

    return run


@pytest.mark.needs("g++")
@pytest.mark.parametrize("turns", [0, 1, 2, 5])
@pytest.mark.parametrize("dtype", list(gpu_fma.FORMATS))
def test_every_thread_of_the_device_answers_for_every_sum_after_every_turn(run_on_host, dtype, turns):
    starts, factors = gpu_fma.draw(np.random.default_rng(turns), BLOCKS * HOST_THREADS, dtype)
    answers, cycles, made = run_on_host(dtype, starts, factors, turns)
    outcome = gpu_fma.verify_answers(answers, gpu_fma.expected_answers(starts, factors, turns, dtype))
    assert outcome.passed, outcome
    assert made == BLOCKS * HOST_THREADS * gpu_fma.CHAINS * gpu_fma.STEPS * turns
    assert (cycles > 0).all()


@pytest.mark.needs("g++")
@pytest.mark.parametrize("dtype", list(gpu_fma.FORMATS))
def test_a_single_fma_left_out_on_the_device_shows(run_on_host, dtype):
    starts, factors = gpu_fma.draw(np.random.default_rng(1), BLOCKS * HOST_THREADS, dtype)
    expected = gpu_fma.expected_answers(starts, factors, 3, dtype)
    made = run_on_host(dtype, starts, factors, 3)[2]
    for left_out in (0, made // 2 + 77, made - 1):
        outcome = gpu_fma.verify_answers(run_on_host(dtype, starts, factors, 3, left_out)[0], expected)
        assert not outcome.passed
        assert "1 of 128 threads wrong" in outcome.found


@pytest.mark.parametrize("dtype", list(gpu_fma.FORMATS))
def test_no_sum_on_the_device_leaves_the_whole_numbers_that_its_type_holds_exactly(dtype):
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


@pytest.mark.parametrize("capability", CAPABILITIES, ids=str)
@pytest.mark.parametrize("dtype", list(gpu_fma.FORMATS))
def test_the_loop_on_the_device_is_of_little_but_fma(dtype, capability):
    (kernel,) = [kernel for kernel in gpu_fma.device_code() if kernel.name.endswith(f" {dtype}")]
    code = compile_kernel(kernel, capability)
    operation = {"float64": r"DFMA", "float32": r"FFMA", "float16": r"HFMA2(\.MMA)?"}.get(
        dtype, r"HFMA2(\.MMA)?\.BF16_V2"
    )
    fma = [line for line in code.loop if re.match(rf"{operation} ", line)]
    assert len(fma) == gpu_fma.STEPS * gpu_fma.CHAINS
    assert len(fma) / len(code.loop) >= 0.97
    assert not any(word in line for line in code.loop for word in ("LDG", "STG", "LDS", "STS", "LDL", "STL", "LDC"))
    assert code.registers <= 65536 // gpu_fma.THREADS


def test_only_the_fma_is_not_the_sources_own():
    (replaced,) = re.findall(r"#ifndef CUDA_ON_HOST(.*?)#endif", gpu_fma.SOURCE, re.DOTALL)
    assert "asm volatile" in replaced
    assert "asm" not in gpu_fma.SOURCE.replace(replaced, "")
