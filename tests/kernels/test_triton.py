"""Kernels in Triton: launch and tiles chosen by arithmetic, skipped with the reason, and run by Triton's interpreter.

`tests/ptx/test_triton_kernels.py` executes the compiled kernels.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

from accelbench.execution.plan import discover
from accelbench.kernels.attention import gpu_triton as attention
from accelbench.kernels.lib.gpu import triton_compiler
from accelbench.kernels.matmul import gpu_triton as matmul
from accelbench.kernels.matmul.shapes import Product
from accelbench.kernels.norm import gpu_triton as norm
from accelbench.kernels.softmax_xent import gpu_triton as softmax_xent
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point
from tests.conftest import ROOT
from tests.gpu.verify_small import small_points

H100 = 132
"""Multiprocessors."""
SHARED_BYTES = {(8, 0): 163 * 1024, (8, 9): 99 * 1024, (9, 0): 227 * 1024, (10, 0): 227 * 1024, (12, 0): 99 * 1024}
"""Shared memory of a block by compute capability (CUDA C++ Programming Guide, technical specifications)."""
POINTS = [point for point in small_points() if point.params.get("impl") == "triton"]


def test_four_benchmarks_and_gemm_have_a_triton_implementation() -> None:
    assert {point.benchmark for point in POINTS} == {"attention", "gemm", "matmul", "norm", "softmax-xent"}


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_a_missing_triton_is_a_skip_with_the_install_command(point: Point, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_compiler, "require_compute_capability", lambda needed, what: None)
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(Skip, match=r"pip install 'accelbench\[triton\]'"):
        discover()[point.benchmark].prepare(point)


@pytest.mark.needs("triton")
def test_the_interpreter_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import_module("triton.language")  # its functions would remain interpreted in this process
    monkeypatch.setattr(triton_compiler, "require_compute_capability", lambda needed, what: None)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(Skip, match="unset TRITON_INTERPRET"):
        triton_compiler.require_triton()


def test_a_type_or_head_dimension_without_a_kernel_is_a_skip() -> None:
    with pytest.raises(Skip, match="not int8"):
        matmul.prepare(Point("matmul", "gpu", {"impl": "triton", "dtype": "int8", "n": 150}))
    with pytest.raises(Skip, match="64 and 128, not 96"):
        attention.prepare(Point("attention", "gpu", {"impl": "triton", "dtype": "float16", "head": 96}))


@pytest.mark.parametrize(
    ("size", "tile"),
    [
        (Product(8192, 8192, 8192), "128x256x64"),  # operands by L2 are read fast enough for the tensor cores
        (Product(1024, 1024, 4096), "128x128x64"),  # one wave of larger tiles would take longer
        (Product(512, 8, 500_000), "64x64x64"),
    ],
    ids=str,
)
def test_the_tile_with_the_shortest_waves_is_chosen(size: Product, tile: str) -> None:
    assert str(matmul.tile_for("bfloat16", size, H100)) == tile


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.needs("triton")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("capability", SHARED_BYTES, ids=str)
def test_every_kernel_fits_the_shared_memory_of_a_block(capability: tuple[int, int]) -> None:
    for module in (matmul, norm, softmax_xent, attention):
        for kernel in module.device_code():
            compiled = triton_compiler.compile_triton(kernel, capability)
            assert compiled.metadata.shared <= SHARED_BYTES[capability], kernel.name
            assert compiled.metadata.num_warps == kernel.warps


def test_a_row_stays_in_the_registers_of_at_most_512_threads() -> None:
    blocks = [triton_compiler.row_block(width, norm.MOST) for width in (1, 128, 129, 8192, 16384, 16385)]
    assert blocks == [128, 128, 256, 8192, 16384, 16384]
    assert [triton_compiler.row_warps(block) for block in blocks] == [4, 4, 4, 16, 16, 16]


def test_scratch_memory_that_nobody_provides_is_an_error() -> None:
    text = ".visible .entry k(\n.param .u64 k_0,\n.param .u64 k_1,\n.param .u64 k_2,\n.param .u64 k_3\n)"
    kernel = norm.kernel_for(64)

    def compiled(size: int) -> SimpleNamespace:
        return SimpleNamespace(asm={"ptx": text}, metadata=SimpleNamespace(global_scratch_size=size))

    assert triton_compiler.hidden_arguments(kernel, compiled(0)) == [np.uint64(0)]
    with pytest.raises(RuntimeError, match="scratch memory"):
        triton_compiler.hidden_arguments(kernel, compiled(128))


@pytest.mark.slow
@pytest.mark.needs("triton", "torch")
def test_every_kernel_is_verified_by_tritons_interpreter() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "tests.kernels.triton_interpreted"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout.count("passed=True") == 8
