"""Small real runs on disk for the tests of `compare`: a machine, records with samples, and a run directory of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from accelbench.plan import PlannedPoint
from accelbench.store import RunInfo, RunStore, Settings
from profiling.benchmark import Metric, Work
from profiling.environment.model import Cpu, Cuda, Environment, Gpu, Limits, Memory, Software, System
from profiling.record import Record, Timing
from profiling.statistics import summarize

NOW = datetime(2025, 1, 1, tzinfo=UTC)
MATMUL: dict[str, str | int] = {"impl": "vendor", "n": 1024}


def samples(median: float, count: int = 30, spread: float = 0.01, seed: int = 0) -> list[float]:
    """Log-normal times around a median, as steady as a quiet machine's."""
    times: list[float] = (median * np.random.default_rng(seed).lognormal(sigma=spread, size=count)).tolist()
    return times


def measured(times: Sequence[float], benchmark: str = "matmul", **fields: Any) -> Record:
    """A measured record with those samples."""
    timer = fields.pop("timer", "host")
    return Record(
        **{
            "benchmark": benchmark,
            "device": "cpu",
            "params": MATMUL,
            "seed": 1,
            "figure": "flops",
            "status": "measured",
            "started": NOW,
            "work": Work(flops=2 * 1024**3),
            "timing": Timing(samples=list(times), stop="relative spread", timer=timer, summary=summarize(times)),
            **fields,
        }
    )


def trained(times: Sequence[float], accuracy: float, **fields: Any) -> Record:
    """The record of a training experiment, measured by its steps."""
    metrics = {"test_accuracy": Metric(accuracy), "first_step": Metric(2.5, "s")}
    work = Work(flops=1e9, items=128, item="images")
    return measured(
        times, "cnn-mnist", params={"batch": 128}, timer="steps", figure="items", metrics=metrics, work=work, **fields
    )


def failed(reason: str, benchmark: str = "matmul", **fields: Any) -> Record:
    """A record of a point that was not measured."""
    return Record(
        **{
            "benchmark": benchmark,
            "device": "cpu",
            "params": MATMUL,
            "seed": 1,
            "figure": "flops",
            "status": "failed",
            "reason": reason,
            "started": NOW,
            **fields,
        }
    )


def gpu(name: str = "NVIDIA H200", **facts: Any) -> Gpu:
    return Gpu(**{"index": 0, "name": name, "uuid_hash": "0123456789ab", "sm_clock_max_mhz": 1980.0, **facts})


def machine(**parts: Any) -> Environment:
    """A machine; `cpu={"governor": "powersave"}` changes single facts, any other value replaces the part."""
    whole = Environment(
        cpu=Cpu(model="EPYC 9654", architecture="x86_64", logical=4, usable=4, governor="performance", isa=["avx2"]),
        memory=Memory(total_bytes=64 << 30, available_bytes=60 << 30),
        limits=Limits(),
        system=System(os="Debian GNU/Linux 12", kernel="6.1.0"),
        gpus=[gpu()],
        cuda=Cuda(driver="550.54", driver_cuda="12.4"),
        software=Software(
            python="3.11.2",
            implementation="CPython",
            libraries={"numpy": "2.2.0", "numba": "0.61.0"},
            blas="OpenBLAS 0.3.28",
            threads={"OMP_NUM_THREADS": "4"},
            accelbench="0.1.0",
        ),
    )
    changes = {
        name: getattr(whole, name).model_copy(update=value) if isinstance(value, dict) and name != "unknown" else value
        for name, value in parts.items()
    }
    return whole.model_copy(update=changes)


def run(path: Path, records: Sequence[Record], environment: Environment | None = None, **fields: Any) -> RunStore:
    """Write a run directory with these records and open it again as a reader does."""
    plan = [PlannedPoint(benchmark=r.benchmark, device=r.device, backend=r.backend, params=r.params) for r in records]
    info = RunInfo(
        **{
            "run_id": path.name,
            "created": NOW,
            "status": "finished",
            "command": ["accelbench", "run"],
            "suite": None,
            "device": "cpu",
            "settings": Settings(),
            "plan": plan,
            "environment": environment or machine(),
            **fields,
        }
    )
    store = RunStore.create(path, info)
    for record in records:
        store.append(record)
    store.close()
    return RunStore.open(path)
