"""Run directories as real runs leave them, for tests of what reads them: a GPU node's."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from accelbench.plan import PlannedPoint
from accelbench.store import RunInfo, RunStore, Settings
from profiling.environment.model import Cache, Cpu, Cuda, Environment, Gpu, Limits, Memory, Software, System
from profiling.record import Record
from tests.accelbench.report_records import STARTED


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
