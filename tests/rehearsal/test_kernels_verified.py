"""Preparation and verification of every GPU implementation with own kernels: host code and PTX."""

from __future__ import annotations

import pytest

from tests.rehearsal.conftest import SMALL, Rehearsed
from tests.rehearsal.stand_ins.mark import MARK

pytestmark = pytest.mark.slow


@pytest.mark.timeout(600)
def test_every_implementation_is_verified_at_its_small_values(rehearse: Rehearsed) -> None:
    process = rehearse("tests.rehearsal.verify_all", **SMALL)
    assert process.returncode == 0, process.stdout + process.stderr
    lines = process.stdout.splitlines()
    benchmarks = {line.split()[0] for line in lines}
    assert {"attention", "flowshop", "gemm", "launch", "nqueens", "peak-arith", "stream", "uts"} <= benchmarks
    assert all("passed=True" in line and MARK in line for line in lines), process.stdout
