"""The records of a GPU node's run: both devices, every kind of benchmark, failed and skipped points, a study."""

from __future__ import annotations

from profiling.benchmark import Metric, Verification, Work
from profiling.record import Record
from tests.accelbench.report_records import (
    HBM,
    HOSTILE,
    NO_CPU_PEAK,
    cpu_telemetry,
    flops_peak,
    gpu_telemetry,
    record,
    studied,
    timing,
    training,
    unmeasured,
)


def cpu_records() -> list[Record]:
    found = []
    for seed, (dtype, cores, rate) in enumerate(
        (
            ("float32", "one", 118e9),
            ("float32", "all", 1.71e12),
            ("float64", "one", 59e9),
            ("float64", "all", 0.86e12),
        )
    ):
        found.append(
            record(
                "peak-arith",
                params={"dtype": dtype, "cores": cores},
                figure="flops",
                ceiling=True,
                work=Work(flops=1e9),
                timing=timing(1e9 / rate, spread=0.001, seed=60 + seed),
                peak=NO_CPU_PEAK,
                telemetry=cpu_telemetry(),
            )
        )
    for seed, (op, rate) in enumerate((("copy", 171e9), ("triad", 183e9), ("dot", 205e9))):
        n = 1 << 26
        arrays = {"copy": 2, "triad": 3, "dot": 2}[op]
        found.append(
            record(
                "stream",
                params={"impl": "numba", "op": op, "dtype": "float64"},
                figure="bytes",
                ceiling=True,
                work=Work(flops=None if op == "copy" else 2 * n, bytes=8 * n * arrays),
                timing=timing(8 * n * arrays / rate, spread=0.03, seed=70 + seed),
                peak=NO_CPU_PEAK,
                telemetry=cpu_telemetry(steal_s=0.31 if op == "triad" else 0.0),
                noise=["steal time: the hypervisor took 2.6 % of the CPU time"] if op == "triad" else [],
            )
        )
    for seed, (impl, dtype, rate) in enumerate(
        (
            ("vendor", "float32", 1.52e12),
            ("vendor", "float64", 0.77e12),
            ("numba", "float32", 0.92e12),
            ("numba", "float64", 0.5e12),
        )
    ):
        n, itemsize = 2048, 4 if dtype == "float32" else 8
        found.append(
            record(
                "matmul",
                params={"impl": impl, "dtype": dtype, "n": n},
                figure="flops",
                work=Work(flops=2 * n**3, bytes=3 * n * n * itemsize),
                timing=timing(2 * n**3 / rate, spread=0.015, seed=80 + seed),
                peak=NO_CPU_PEAK,
                telemetry=cpu_telemetry(),
            )
        )
    for n, nodes, solutions in ((12, 856_189, 14_200), (14, 27_358_553, 365_596)):
        found.append(
            record(
                "nqueens",
                params={"impl": "numba", "n": n},
                figure="items",
                work=Work(items=nodes, item="nodes"),
                timing=timing(nodes / 1.31e9, spread=0.01, seed=n),
                verification=Verification(
                    passed=True, method="published solutions", expected=str(solutions), found=str(solutions)
                ),
                telemetry=cpu_telemetry(),
            )
        )
    slow = timing(0.061, spread=0.1, count=5, seed=9, timer="steps", stop="epochs done")
    found.append(training("cpu", "float32", 0.061, timing=slow))
    return found


def gpu_records() -> list[Record]:
    found = []
    peaks = {"float32": 67e12, "float64": 67e12, "tf32": 494.7e12, "float16": 989.4e12, "bfloat16": 989.4e12}
    rates = {"float32": 51.9e12, "float64": 61.2e12, "tf32": 402e12, "float16": 712e12, "bfloat16": 783e12}
    sizes = {"float32": 4, "float64": 8, "tf32": 4, "float16": 2, "bfloat16": 2}
    for seed, (dtype, rate) in enumerate(rates.items()):
        n, tensor = 8192, dtype != "float32"
        params = {"impl": "vendor", "dtype": dtype, "n": n}
        found.append(
            record(
                "matmul",
                "gpu",
                params=params,
                figure="flops",
                ceiling=True,
                work=Work(flops=2 * n**3, bytes=3 * n * n * sizes[dtype]),
                timing=timing(
                    2 * n**3 / rate, seed=seed, timer="nvbench", batch=2 * n**3 / rate * 0.97, stop="steady noise"
                ),
                peak=flops_peak(peaks[dtype], "tensor" if tensor else "plain"),
                telemetry=gpu_telemetry(1395 if dtype == "bfloat16" else 1755),
                noise=["power limit reached: the SM clock fell to 1395 MHz"] if dtype == "bfloat16" else [],
            )
        )
    for n in (1024, 4096):
        found.append(
            record(
                "matmul",
                "gpu",
                params={"impl": "numba", "dtype": "float32", "n": n},
                figure="flops",
                ceiling=True,
                work=Work(flops=2 * n**3, bytes=12 * n * n),
                timing=timing(2 * n**3 / (5.6e12 + n * 4e8), spread=0.02, seed=n, timer="nvbench", discarded=3),
                peak=flops_peak(67e12),
                telemetry=gpu_telemetry(),
            )
        )
    for seed, (op, arrays, rate) in enumerate(
        (("copy", 2, 4.21e12), ("mul", 2, 4.2e12), ("add", 3, 4.28e12), ("triad", 3, 4.27e12), ("dot", 2, 4.36e12))
    ):
        n = 1 << 27
        flops = {"copy": None, "mul": n, "add": n, "triad": 2 * n, "dot": 2 * n}[op]
        found.append(
            record(
                "stream",
                "gpu",
                params={"impl": "numba", "op": op, "dtype": "float64"},
                figure="bytes",
                ceiling=True,
                work=Work(flops=flops, bytes=8 * n * arrays),
                timing=timing(8 * n * arrays / rate, spread=0.002, seed=20 + seed, timer="nvbench"),
                peak=HBM,
                telemetry=gpu_telemetry(1980),
            )
        )
    for mode, us in (("latency", 5.9), ("throughput", 1850.0)):
        found.append(
            record(
                "launch",
                "gpu",
                params={"impl": "cupy", "mode": mode},
                timing=timing(us * 1e-6, spread=0.05, count=900, seed=40),
                metrics={"per_launch": Metric(us * 1e-6 / (1000 if mode == "throughput" else 1), "s")},
                verification=Verification(passed=True, method="launches counted", expected="1000", found="1000"),
                telemetry=gpu_telemetry(1200),
            )
        )
    found.append(training("gpu", "mixed_float16", 0.0021))
    return found


def unmeasured_records() -> list[Record]:
    return [
        unmeasured(
            "matmul",
            "failed",
            "the worker was killed by SIGSEGV",
            device="gpu",
            params={"impl": "numba", "dtype": "float64", "n": 4096},
            figure="flops",
            output_tail=[
                "Fatal Python error: Segmentation fault",
                "",
                'File "gpu_numba.py", line 81 in launch',
                HOSTILE,
            ],
        ),
        unmeasured(
            "nqueens",
            "failed",
            "wrong answer: published solutions: expected 14772512, found 14772511",
            params={"impl": "numba", "n": 16},
            figure="items",
            verification=Verification(
                passed=False, method="published solutions", expected="14772512", found="14772511"
            ),
        ),
        unmeasured(
            "matmul",
            "skipped",
            "n=1000000 needs 11.2 TB and half of the free memory is 62.9 GB",
            params={"impl": "vendor", "dtype": "float32", "n": 1_000_000},
            figure="flops",
        ),
        unmeasured("cnn-mnist", "skipped", "jax is not installed: pip install 'accelbench[jax]'", backend="jax"),
    ]


def rich_records() -> list[Record]:
    """What a GPU node's run holds: both devices, every kind of benchmark, noise, failures and skipped points."""
    return [*cpu_records(), *gpu_records(), *unmeasured_records()]


def study_records() -> list[Record]:
    """Kimm et al. 2021 as a machine with a GPU repeats it: units and layers, on both devices."""
    return [
        studied(
            "bilstm-har",
            device,
            slowest * layers * (units / 256) ** growth,
            0.88 + 0.01 * layers,
            params={"units": units, "layers": layers, "batch": 64, "repeats": 5},
        )
        for device, slowest, growth in (("cpu", 610.0, 1.6), ("gpu", 11.0, 0.3))
        for layers in (1, 2, 3)
        for units in (32, 64, 128, 256)
    ]
