"""The command that executes a kernel of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ptx.__main__ import main

pytestmark = pytest.mark.needs("g++")

KERNEL = """
import numpy as np
from tests.ptx.sources import compile_cuda

SOURCE = '''extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ int s[64];
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[63 - threadIdx.x];
}'''

def run(device, seed):
    x = np.arange(64, dtype=np.int32)
    out = device.empty(64, np.int32)
    device.load(compile_cuda(SOURCE)).launch(1, 64, device.read_only(x), out, seed=seed)
    assert (out.array == x[::-1]).all()
"""


def test_a_file_with_a_kernel_is_executed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "reverse.py"
    file.write_text(KERNEL)
    assert main([str(file), "3"]) == 0
    file.write_text(KERNEL.replace("__syncthreads();", ""))
    assert main([str(file)]) == 1
    assert "reverse:" in capsys.readouterr().err


def test_arguments_are_required() -> None:
    assert main([]) == 2
