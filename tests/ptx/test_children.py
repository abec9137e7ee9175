"""Grids that kernels launch: their order, their counts, and what is wrong with a launch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx.machine import Counts, Device, PtxError
from tests.ptx.sources import compile_cuda

pytestmark = pytest.mark.needs("g++")

RELOCATABLE = ("--relocatable-device-code=true",)
FAMILY = """
extern "C" __global__ void grandchild(int* out, int i) { atomicAdd(out + i, 1 + threadIdx.x); }
extern "C" __global__ void child(int* out, int i, char last) {
    if (threadIdx.x == 0) grandchild<<<2, 3, 0, cudaStreamFireAndForget>>>(out, i + last);
}
extern "C" __global__ void parent(int* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 100 * i;
    child<<<1, 40, 0, cudaStreamFireAndForget>>>(out, i, 0);
    if (cudaGetLastError() != cudaSuccess) __trap();
}
"""
STEPS = """
extern "C" __global__ void step(int* out, int digit) { *out = 10 * *out + digit; }
extern "C" __global__ void steps(int* out) {
    for (int digit = 1; digit <= 3; ++digit) step<<<1, 1, 0, STREAM>>>(out + blockIdx.x, digit);
}
"""
LAUNCHER = """
extern "C" __global__ void nothing(int* out) {}
extern "C" __global__ void launcher(int* out) { LAUNCH; }
"""


def run(source: str, entry: str, grid: int, block: int, size: int, seed: int = 1) -> tuple[list[int], Counts]:
    device = Device()
    out = device.buffer(np.zeros(size, np.int32))
    counts = device.load(compile_cuda(source, RELOCATABLE)).launch(grid, block, out, entry=entry, seed=seed)
    return out.array.tolist(), counts


@pytest.mark.parametrize("seed", range(1, 4))
def test_children_run_after_the_grid_that_launches_them(seed: int) -> None:
    found, counts = run(FAMILY, "parent", 2, 5, 10, seed)
    assert found == [100 * i + 2 * (1 + 2 + 3) for i in range(10)]
    text = compile_cuda(FAMILY, RELOCATABLE).splitlines()
    additions = [times for line, times in counts.lines.items() if text[line - 1].strip().startswith(("red.", "atom."))]
    assert additions == [10 * 2]  # warps of all grandchildren


def test_the_default_stream_of_a_block_keeps_the_order_of_launches() -> None:
    ordered = STEPS.replace("STREAM", "0")
    assert {tuple(run(ordered, "steps", 2, 1, 2, seed)[0]) for seed in range(1, 6)} == {(123, 123)}
    free = STEPS.replace("STREAM", "cudaStreamFireAndForget")
    assert len({tuple(run(free, "steps", 2, 1, 2, seed)[0]) for seed in range(1, 6)}) > 1


@pytest.mark.parametrize(
    ("launch", "kind"),
    [
        ("nothing<<<1, 2048, 0, cudaStreamFireAndForget>>>(out)", "launch"),
        ("nothing<<<0, 32, 0, cudaStreamFireAndForget>>>(out)", "launch"),
        ("nothing<<<1, 32, 0, cudaStreamTailLaunch>>>(out)", "unsupported"),
        ("for (int i = 0; i < 2049; ++i) nothing<<<1, 1, 0, cudaStreamFireAndForget>>>(out)", "launch"),
    ],
    ids=["block", "grid", "stream", "pending"],
)
def test_a_launch_that_fails_is_an_error_with_its_line(launch: str, kind: str) -> None:
    source = LAUNCHER.replace("LAUNCH", launch)
    with pytest.raises(PtxError) as raised:
        run(source, "launcher", 1, 1, 1)
    assert raised.value.kind == kind
    assert "call" in compile_cuda(source, RELOCATABLE).splitlines()[raised.value.line - 1]


def test_as_many_launches_as_the_default_limit_are_pending() -> None:
    many = "for (int i = 0; i < 2048; ++i) nothing<<<1, 1, 0, cudaStreamFireAndForget>>>(out)"
    run(LAUNCHER.replace("LAUNCH", many), "launcher", 1, 1, 1)


def test_a_parameter_that_is_not_written_is_an_error() -> None:
    text = compile_cuda(LAUNCHER.replace("LAUNCH", "nothing<<<1, 1, 0, cudaStreamFireAndForget>>>(out)"), RELOCATABLE)
    (store,) = (line for line in text.splitlines() if line.strip().startswith("st.u64"))
    device = Device()
    module = device.load(text.replace(store, ""))
    with pytest.raises(PtxError) as raised:
        module.launch(1, 1, device.buffer(np.zeros(1, np.int32)), entry="launcher")
    assert raised.value.kind == "uninitialised"


def test_an_error_in_a_child_has_the_line_of_the_child() -> None:
    with pytest.raises(PtxError) as raised:
        run(FAMILY.replace("out + i, 1", "out + i + 90, 1"), "parent", 1, 5, 10)
    assert raised.value.kind == "bounds"
