"""Self-benchmarks: counterparts of likwid-bench, and removal of limiting environment variables."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict

import pytest

from tests.bench_self import caches
from tests.bench_self.__main__ import limiting_variables
from tests.bench_self.likwid import counterparts


@pytest.mark.parametrize(
    ("isa", "sve_bits", "kernel"),
    [
        (["sse4_2"], 0, "peakflops_sp_sse"),
        (["sse4_2", "avx"], 0, "peakflops_sp_avx"),
        (["sse4_2", "avx", "fma", "avx2"], 0, "peakflops_sp_avx_fma"),
        (["sse4_2", "avx", "fma", "avx2", "avx512f"], 0, "peakflops_sp_avx512_fma"),
        (["asimd"], 0, "peakflops_sp_neon_fma"),
        (["asimd", "sve"], 256, "peakflops_sp_sve256_fma"),
        (["asimd", "sve"], 1024, "peakflops_sp_neon_fma"),
    ],
)
def test_likwids_counterpart_uses_the_widest_vectors(isa: list[str], sve_bits: int, kernel: str) -> None:
    found = counterparts(isa, sve_bits)
    assert found is not None
    assert found.fp32 == kernel
    assert found.fp64 == kernel.replace("_sp", "")


def test_caches_are_compared_with_the_widest_loads_and_increasing_sizes() -> None:
    assert caches.suffix(["sse4_2", "avx", "avx512f"]) == "_avx512"
    assert caches.suffix(["sse4_2", "avx"]) == "_avx"
    assert caches.suffix([]) is None
    sizes = list(caches.sizes().values())
    assert sizes == sorted(set(sizes))


@pytest.mark.needs("likwid", "x86-64")
@pytest.mark.parametrize(
    "isa", [["sse4_2"], ["avx"], ["avx", "fma"], ["avx", "fma", "avx512f"]], ids=lambda isa: isa[-1]
)
def test_likwid_has_the_counterparts(isa: list[str]) -> None:
    listed = subprocess.run(["likwid-bench", "-a"], capture_output=True, text=True, check=True).stdout
    found = counterparts(isa)
    assert found is not None
    assert {*asdict(found).values()} <= {line.split(" - ")[0] for line in listed.splitlines()}


def test_a_cpu_without_likwid_kernels_has_no_counterparts() -> None:
    assert counterparts([]) is None


def test_limiting_variables_are_removed() -> None:
    limiting = {"OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "1"}
    assert limiting_variables({"PATH": "/bin", **limiting}) == sorted(limiting)
    command = [sys.executable, "-m", "tests.bench_self", "no-such-part"]
    done = subprocess.run(command, env=os.environ | limiting, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout.count("OMP_NUM_THREADS=1, OPENBLAS_CORETYPE=Haswell") == 1
