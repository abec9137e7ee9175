"""Tests of recorded settings: values of another pattern are masked."""

from __future__ import annotations

import pytest

from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.machine.environment.settings import SETTINGS, THREADS, collect_variables, masked

PATTERNS = {**THREADS, **SETTINGS}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OMP_NUM_THREADS", "4,2"),
        ("OMP_PROC_BIND", "spread,close"),
        ("OMP_PLACES", "threads(4)"),
        ("OMP_PLACES", "{0:4},{4:4:2}"),
        ("OMP_PLACES", "{0,1,2}:4:-3"),
        ("OMP_SCHEDULE", "nonmonotonic:dynamic,64"),
        ("GOMP_CPU_AFFINITY", "0 3 1-2 4-15:2"),
        ("KMP_AFFINITY", "granularity=fine,verbose,compact,1,0"),
        ("KMP_AFFINITY", "proclist=[3,0,{1,2}],explicit"),
        ("KMP_BLOCKTIME", "infinite"),
        ("TF_ENABLE_ONEDNN_OPTS", "0"),
        ("XLA_FLAGS", "--xla_cpu_max_isa=AVX2 --xla_gpu_autotune_level=4"),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", ".75"),
        ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128,expandable_segments:True"),
        ("OPENBLAS_CORETYPE", "SkylakeX"),
        ("MKL_ENABLE_INSTRUCTIONS", "SSE4_2"),
        ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_AMX"),
        ("ATEN_CPU_CAPABILITY", "avx2"),
    ],
)
def test_a_valid_value_is_recorded_unchanged(name: str, value: str) -> None:
    assert masked(value, PATTERNS[name]) == value


@pytest.mark.parametrize(
    ("name", "value", "recorded"),
    [
        (
            "XLA_FLAGS",
            "--xla_dump_to=/home/alice/dump --xla_gpu_autotune_level=4",
            "--xla_dump_to=… --xla_gpu_autotune_level=4",
        ),
        ("XLA_FLAGS", "alice@cluster --xla_x=1", "… --xla_x=1"),
        ("OMP_PLACES", "~/secret", "…"),
        ("OMP_PLACES", "alice", "…"),
        ("KMP_AFFINITY", "alice/secret,granularity=fine", "…"),
        ("KMP_AFFINITY", "compact,alice", "…"),
        ("OMP_NUM_THREADS", "four", "…"),
        ("KERAS_BACKEND", "alices_backend", "…"),
        ("TF_GPU_ALLOCATOR", r"C:\\Users\\alice", "…"),
    ],
)
def test_another_value_is_masked(name: str, value: str, recorded: str) -> None:
    assert masked(value, PATTERNS[name]) == recorded


def test_only_listed_variables_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("OMP_PLACES", "hunter2")
    found = collect_variables(THREADS)
    assert (found["OMP_NUM_THREADS"], found["OMP_PLACES"]) == ("3", "…")
    assert "AWS_SECRET_ACCESS_KEY" not in found
    assert "hunter2" not in collect().model_dump_json()
