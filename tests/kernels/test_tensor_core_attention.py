"""Our tensor-core attention on the host: any sizes, any order of the threads, faults that are put in, and its task."""

from __future__ import annotations

import math
import os
import subprocess
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from accelbench.kernels.attention import gpu_mma, gpu_task, gpu_torch, gpu_vendor
from accelbench.kernels.attention.accuracy import verify_attention
from accelbench.kernels.attention.shape import MASKS, Attention
from accelbench.kernels.lib.formats import draw, from_storage
from accelbench.kernels.lib.gpu.compilation import compile_kernel
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point
from tests.kernels import host_cupy
from tests.kernels.emulation import (
    DTYPES,
    EMULATION,
    NO_FAULT,
    SANITIZERS,
    compile_for_host,
    instead,
    with_faults,
    without,
)

FAULTS = {
    "no wait for the keys": (
        "cp_async_wait<0>();\n        __syncthreads();\n        start_rows(shared_v",
        "if (!BROKEN) cp_async_wait<0>();\n        __syncthreads();\n        start_rows(shared_v",
    ),
    "the values overwritten while they are read": (
        "__syncthreads();\n        start_rows(shared_v",
        "if (!BROKEN) __syncthreads();\n        start_rows(shared_v",
    ),
    "no wait for the values": (
        "cp_async_wait<0>();\n        __syncthreads();\n        if (k0",
        "if (!BROKEN) cp_async_wait<0>();\n        __syncthreads();\n        if (k0",
    ),
    "the keys overwritten while they are read": (
        "__syncthreads();\n        if (k0",
        "if (!BROKEN) __syncthreads();\n        if (k0",
    ),
    "no wait for the warp's results": without("__syncwarp();"),
    "without the mask": without("scores.hide("),
    "the mask one key too far": ("e % 2 > seen)", "e % 2 > seen + BROKEN)"),
    "a block masked too late": instead("k0 + KEYS - 1", "k0"),
    "the sum not rescaled": instead("total[i][half] * factor", "total[i][half]"),
    "the output not rescaled": ("o[i][j][2 * half] *= factor,", "o[i][j][2 * half] *= BROKEN ? 1 : factor,"),
    "the maximum not shared": ("higher, 2));", "higher, BROKEN ? 0 : 2));"),
    "the sum not shared": ("__shfl_xor_sync(ALL_LANES, sum, 2)", "(BROKEN ? 0 : __shfl_xor_sync(ALL_LANES, sum, 2))"),
    "the last block of keys left out": ("k0 < end; k0", "k0 < (BROKEN ? end - KEYS : end); k0"),
    "no keys after the first": ("start_rows(shared_k, k + ", "if (!BROKEN) start_rows(shared_k, k + "),
    "one half of K twice": instead("lane / 8 % 2", "0"),
    "V not transposed": ("ldmatrix_x4_trans(b, v", "(BROKEN ? ldmatrix_x4 : ldmatrix_x4_trans)(b, v"),
    "O read without its swizzle": (
        "(const uint4*)(shared + place(row, chunk))",
        "(const uint4*)(shared + (BROKEN ? (row * CHUNKS + chunk) * 16 : place(row, chunk)))",
    ),
    "rows written behind the last": instead("q0 + row < n", "true"),
}


@dataclass(frozen=True)
class Emulated:
    """The kernel compiled for the host: as it is for bfloat16, with faults to be switched on for float16."""

    folder: Path
    programs: dict[tuple[str, int], Path] = field(default_factory=dict)

    def program(self, dtype: str, head: int) -> Path:
        if (dtype, head) not in self.programs:
            source, program = (self.folder / f"{dtype}_{head}{suffix}" for suffix in (".cu", ""))
            faulty = dtype == "float16"
            source.write_text(with_faults(FAULTS, gpu_mma.SOURCE) if faulty else gpu_mma.SOURCE)
            flags = (() if faulty else SANITIZERS) + gpu_mma.options(dtype, head)
            runner = str(EMULATION / "run_attention.cpp")
            compile_for_host(*flags, f'-DSOURCE="{source}"', runner, "-o", str(program))
            self.programs[dtype, head] = program
        return self.programs[dtype, head]

    def launch(self, dtype: str, size: Attention, qkv: Any, scale: float, seed: int, fault: int = NO_FAULT) -> Any:
        """O as it is stored; RuntimeError with what the emulation objects to."""
        words = size.heads, size.sequence, int(size.causal), scale, seed
        outcome = subprocess.run(
            [self.program(dtype, size.head), *map(str, words)],
            input=b"".join(x.tobytes() for x in qkv),
            capture_output=True,
            env=os.environ | {"FAULT": str(fault), "ASAN_OPTIONS": "detect_leaks=0"},
        )
        if outcome.returncode != 0:
            raise RuntimeError(outcome.stderr.decode())
        return np.frombuffer(outcome.stdout, qkv[0].dtype).reshape(size.shape)

    def is_right(self, dtype: str, size: Attention, seed: int, fault: int = NO_FAULT) -> bool:
        rng = np.random.default_rng(seed)
        qkv = [draw(rng, size.shape, dtype) for _ in range(3)]
        o = self.launch(dtype, size, qkv, math.log2(math.e) / math.sqrt(size.head), seed, fault)
        return verify_attention(*(from_storage(x, dtype) for x in (*qkv, o)), dtype, size.causal).passed


@pytest.fixture(scope="session")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Emulated:
    return Emulated(tmp_path_factory.mktemp("attention_on_host"))


@pytest.mark.needs("g++")
@pytest.mark.slow
@pytest.mark.parametrize("head", gpu_mma.HEADS)
@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(heads=st.integers(1, 2), sequence=st.integers(1, 300), causal=st.booleans(), seed=st.integers(0, 1000))
@example(heads=1, sequence=1, causal=True, seed=0)
@example(heads=2, sequence=129, causal=True, seed=1)
@example(heads=1, sequence=65, causal=False, seed=2)
def test_heads_of_any_length_are_attended_to(
    emulated: Emulated, dtype: str, head: int, heads: int, sequence: int, causal: bool, seed: int
) -> None:
    assert emulated.is_right(dtype, Attention(heads, sequence, head, causal), seed)


@pytest.mark.needs("g++")
@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_kernel_is_found(emulated: Emulated, fault: str) -> None:
    for seed in range(4):
        for causal in (True, False):
            try:
                right = emulated.is_right("float16", Attention(2, 200, 64, causal), seed, list(FAULTS).index(fault))
            except RuntimeError:
                return
            if not right:
                return
    pytest.fail("every order of the threads gave the right attention")


@pytest.mark.needs("g++")
@pytest.mark.slow
def test_the_same_input_gives_the_same_bits_in_any_order_of_the_threads(emulated: Emulated) -> None:
    size, rng = Attention(1, 150, 64), np.random.default_rng(5)
    qkv = [draw(rng, size.shape, "float16") for _ in range(3)]
    first, second = (emulated.launch("float16", size, qkv, 0.18, seed) for seed in (1, 2))
    assert first.tobytes() == second.tobytes()


@pytest.mark.needs("g++")
@pytest.mark.parametrize("head", gpu_mma.HEADS)
def test_the_launches_are_of_the_sizes_that_the_source_is_written_for(emulated: Emulated, head: int) -> None:
    printed = subprocess.run([emulated.program("float16", head)], capture_output=True, check=True, text=True)
    launched = head, gpu_mma.QUERIES, gpu_mma.keys(head), gpu_mma.THREADS, gpu_mma.shared_bytes(head)
    assert tuple(map(int, printed.stdout.split())) == launched
    assert gpu_mma.shared_bytes(head) <= 99 * 1024 // 2, "two blocks on the smallest multiprocessors (8.6, 8.9, 12.0)"


@pytest.mark.slow
@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)], ids=str)
def test_a_turn_overlaps_copies_loads_and_multiplications(capability: tuple[int, int]) -> None:
    for kernel in gpu_mma.device_code():
        code = compile_kernel(kernel, capability)
        head = int(kernel.name.split()[-1])
        count = {word: sum(word in line for line in code.loop) for word in ("HMMA.16816.F32", "LDSM", "LDGSTS", "MUFU")}
        # 32 queries of a warp, in tiles of 16x8x16; the exponentials of 32 weights a lane, and of the four maxima.
        assert count["HMMA.16816.F32"] == 128
        assert count["LDSM"] == {64: 40, 128: 48}[head]
        assert count["LDGSTS"] == 8
        assert count["MUFU"] == gpu_mma.keys(head) + 4
        assert len(code.loop) <= 1000


def point(impl: str, dtype: str, sequence: int, **params: int | str) -> Point:
    params = {"head": 64, "heads": 2, "mask": "causal", "sequence": sequence, **params}
    return Point("attention", "gpu", {"impl": impl, "dtype": dtype, **params}, seed=3)


@pytest.fixture
def on_host(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes that tasks require of a device whose memory is the host's."""
    needed: list[int] = []
    monkeypatch.setattr(gpu_task, "cupy_library", lambda: host_cupy.cupy)
    monkeypatch.setattr(gpu_task, "require_device_memory", needed.append)
    monkeypatch.setattr(gpu_task, "synchronize", lambda: None)
    for module in (gpu_mma, gpu_vendor):
        monkeypatch.setattr(module, "cupy_stream", lambda stream: nullcontext())
        monkeypatch.setattr(module, "require_compute_capability", lambda needed, what: None)
    return needed


@pytest.mark.needs("g++")
@pytest.mark.slow
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_task_hands_the_kernel_what_it_expects(
    emulated: Emulated, on_host: list[int], dtype: str, mask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = Attention(2, 140, 64, mask == "causal")

    class Kernel:
        max_dynamic_shared_size_bytes = 0

        def __call__(self, grid: Any, block: Any, arguments: Any, shared_mem: int) -> None:
            *qkv, o, n, scale, causal = arguments
            assert (grid, block, shared_mem) == ((2 * 2,), (gpu_mma.THREADS,), self.max_dynamic_shared_size_bytes)
            assert (shared_mem, n, bool(causal)) == (gpu_mma.shared_bytes(64), 140, size.causal)
            o.set(emulated.launch(dtype, size, qkv, float(scale), seed=0))

    def module(code: str, options: tuple[str, ...]) -> Any:
        assert (code, options) == (gpu_mma.SOURCE, gpu_mma.options(dtype, 64))
        return SimpleNamespace(get_function={gpu_mma.ENTRY: Kernel()}.__getitem__)

    monkeypatch.setattr(gpu_mma, "library", lambda name: SimpleNamespace(RawModule=module))
    task = gpu_mma.prepare(point("mma", dtype, 140, mask=mask))
    for _ in range(2):
        outcome = task.verify()
        assert outcome.passed, outcome
    assert on_host == [4 * 2 * 140 * 64 * 2] == [task.work.bytes]
    assert task.work.flops == size.flops


def multiply(handle: Any, op_a: int, op_b: int, m: int, n: int, k: int, alpha: int, *rest: int) -> None:
    """gemmStridedBatchedEx as cuBLAS documents it, of float16 to float16 (2) or float32 (0), with β = 0."""
    a, kind_a, lda, stride_a, b, kind_b, ldb, stride_b, beta, c, kind_c, ldc, stride_c, batch, compute, _ = rest
    assert (op_b, kind_a, kind_b, compute) == (0, 2, 2, 68)
    assert host_cupy.at(beta, 1, "float32")[0] == 0
    for i in range(batch):
        columns = m if op_a else k
        x = host_cupy.at(a + 2 * i * stride_a, lda * columns, "float16").reshape(columns, lda)[:, : k if op_a else m]
        y = host_cupy.at(b + 2 * i * stride_b, ldb * n, "float16").reshape(n, ldb)[:, :k]
        product = y.astype(np.float32) @ (x.T if op_a else x).astype(np.float32)
        dtype = {0: "float32", 2: "float16"}[kind_c]
        at = c + np.dtype(dtype).itemsize * i * stride_c
        host_cupy.at(at, ldc * n, dtype).reshape(n, ldc)[:, :m] = product * host_cupy.at(alpha, 1, "float32")[0]


@pytest.mark.parametrize(("block", "at_once"), [(gpu_vendor.BLOCK, 5), (2 * 70 * 70, 2)])
@pytest.mark.parametrize("mask", MASKS)
def test_cublas_and_array_operations_give_the_attention(
    on_host: list[int], mask: str, block: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SimpleNamespace(cublas_handle=0)
    cupy = SimpleNamespace(
        empty=host_cupy.empty, triu=np.triu, full=np.full, exp=np.exp, cuda=SimpleNamespace(Device=lambda: device)
    )
    libraries = {"cupy": cupy, "cupy_backends.cuda.libs.cublas": SimpleNamespace(gemmStridedBatchedEx=multiply)}
    monkeypatch.setattr(gpu_vendor, "library", libraries.__getitem__)
    monkeypatch.setattr(gpu_vendor, "BLOCK", block)
    task = gpu_vendor.prepare(point("vendor", "float16", 70, heads=5, mask=mask))
    outcome = task.verify()
    assert outcome.passed, outcome
    (needed,) = on_host
    assert needed == 4 * 5 * 70 * 64 * 2 + 70 * 70 * (6 * at_once + 4 * (mask == "causal"))


@pytest.mark.needs("torch")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_pytorch_returns_is_checked_on_numbers_that_it_has_not_seen(
    on_host: list[int], dtype: str, mask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(gpu_torch, "require_compute_capability", lambda needed, what: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    task = gpu_torch.prepare(point("torch", dtype, 70, heads=5, mask=mask))
    for _ in range(2):
        outcome = task.verify()
        assert outcome.passed, outcome
    assert on_host == [5 * 5 * 70 * 64 * 2]
    stale: list[Any] = []
    attention = torch.nn.functional.scaled_dot_product_attention

    def remembered(*tensors: Any, **options: Any) -> Any:
        stale.append(attention(*tensors, **options))
        return stale[0]

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", remembered)
    task = gpu_torch.prepare(point("torch", dtype, 70, heads=5, mask=mask))
    task.run()
    assert not task.verify().passed


@pytest.mark.usefixtures("on_host")
def test_what_an_implementation_does_not_know_is_skipped_with_the_reason() -> None:
    with pytest.raises(Skip, match="heads of 64 and 128 dimensions, not 96"):
        gpu_mma.prepare(point("mma", "float16", 70, head=96))
    with pytest.raises(Skip, match="float16, not bfloat16"):
        gpu_vendor.prepare(point("vendor", "bfloat16", 70))
