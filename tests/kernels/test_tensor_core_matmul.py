"""Our tensor-core kernels on the host: the same source against an emulation of the instructions that it is made of.

`cuda_on_host/` emulates threads, copies, barriers and matrix instructions as the PTX ISA defines them. What is still on
its way reads as NaN, and threads take turns in an order drawn from a seed. g++ compiles it: it is required.
"""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kernels.compilation import compile_kernel
from kernels.matmul import gpu_mma, gpu_task, gpu_wgmma
from kernels.matmul.formats import draw, from_storage
from kernels.matmul.tensor_map import tensor_map
from profiling.benchmark import Point, Skip

EMULATION = Path(__file__).with_name("cuda_on_host")
COMPILER = ("g++", "-std=c++17", "-O1", "-w")
SANITIZERS = ("-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
KERNELS: dict[str, ModuleType] = {"mma": gpu_mma, "wgmma": gpu_wgmma}
DTYPES = ("float16", "bfloat16")
CHUNK = 8
"""Elements of 16 bytes: `gpu_task` pads every size to whole ones."""
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
SMALLEST = 2.0**-24
"""The distance between float16 numbers below its smallest normal one."""


def without(statement: str) -> tuple[str, str]:
    return statement, f"if (!BROKEN) {statement}"


def instead(right: str, wrong: str) -> tuple[str, str]:
    return right, f"(BROKEN ? {wrong} : {right})"


FAULTS = {
    "mma": {
        "no wait for copies": without("cp_async_wait<STAGES - 2>();"),
        "no wait for the block": without("__syncthreads();"),
        "no wait for the warp": without("__syncwarp();"),
        "no copies of later stages": without("copies.start(writing, a);"),
        "C read without its swizzle": ("(chunk ^ (row & 7)) * 16);", "(BROKEN ? chunk : chunk ^ (row & 7)) * 16);"),
        "one half of B twice": instead("2 * j + half", "2 * j"),
        "B not transposed": ("ldmatrix_x4_trans(b[j],", "(BROKEN ? ldmatrix_x4 : ldmatrix_x4_trans)(b[j],"),
    },
    "wgmma": {
        "no wait for copies": without("mbarrier_wait(full + 8 * place.stage, place.round);"),
        "no wait for a free stage": without("mbarrier_wait(empty + 8 * place.stage, place.round ^ 1);"),
        "no wait for the neighbour's readers": instead("CLUSTER * CONSUMERS * 4", "CONSUMERS * 4"),
        "a stage given back too early": without("wgmma_wait<1>();"),
        "no wait for the sums": without("wgmma_wait<0>();"),
        "no fence before wgmma": without("wgmma_fence();"),
        "no fence before the stores": without("fence_proxy_async();"),
        "no wait for the warp's results": (
            "fence_proxy_async();\n                __syncwarp();",
            "fence_proxy_async();\n                if (!BROKEN) __syncwarp();",
        ),
        "no wait for the stores": without("bulk_wait_read<1>();"),
        "barriers not announced": without("fence_mbarrier_init();"),
        "no wait for the neighbour's barriers": ("cluster_sync();\n\n", "if (!BROKEN) cluster_sync();\n\n"),
        "leaving before the neighbour": ("cluster_sync();\n}\n", "if (!BROKEN) cluster_sync();\n}\n"),
        "C written without its swizzle": instead("((2 * i + chunk) ^ turned)", "(2 * i + chunk)"),
        "the strides of B exchanged": ("PANEL_B, PATTERN)", "BROKEN ? PATTERN : PANEL_B, BROKEN ? PANEL_B : PATTERN)"),
        "one half of B twice": ("+ rank * PANELS_LOADED * PANEL;", "+ (BROKEN ? 0 : rank * PANELS_LOADED * PANEL);"),
        "sums begun anew each turn": instead("turn > 0 || step > 0", "step > 0"),
    },
}
NO_FAULT = -1
SWITCH = """
#include <cstdlib>
static bool broken(int fault) { static const int asked = std::atoi(std::getenv("FAULT")); return asked == fault; }
"""


@dataclass(frozen=True)
class Emulated:
    """The kernels compiled for the host: as they are for bfloat16, with faults to be switched on for float16."""

    folder: Path

    @property
    def driver(self) -> str:
        return str(self.folder / "libdriver.so")

    def constants(self, kernel: str) -> tuple[int, ...]:
        printed = subprocess.run([self.folder / f"{kernel}_float16"], capture_output=True, check=True, text=True)
        return tuple(int(word) for word in printed.stdout.split())

    def multiply(self, kernel: str, dtype: str, a: Any, b: Any, seed: int, fault: int = NO_FAULT) -> Any:
        """C of padded arrays, all as they are stored; RuntimeError with what the emulation objects to."""
        batch, m, k = a.shape
        n = b.shape[2]
        if kernel == "mma":
            return self.launch(kernel, dtype, (m, n, k, batch, seed), b"", a, b, fault)
        boxes = ((a.shape, gpu_wgmma.BOX_A), (b.shape, gpu_wgmma.BOX_B), ((batch, m, n), gpu_wgmma.BOX_C))
        maps = b"".join(tensor_map(1 << 20, shape, rows, self.driver).tobytes() for shape, rows in boxes)
        tiles = -(-m // gpu_wgmma.CLUSTER_M) * -(-n // gpu_wgmma.TILE_N) * batch
        blocks = gpu_wgmma.blocks_of(tiles, multiprocessors=5)
        return self.launch(kernel, dtype, (m, n, k, batch, blocks, seed), maps, a, b, fault)

    def launch(
        self, kernel: str, dtype: str, words: tuple[int, ...], maps: bytes, a: Any, b: Any, fault: int = NO_FAULT
    ) -> Any:
        outcome = subprocess.run(
            [self.folder / f"{kernel}_{dtype}", *map(str, words)],
            input=maps + a.tobytes() + b.tobytes(),
            capture_output=True,
            env=os.environ | {"FAULT": str(fault), "ASAN_OPTIONS": "detect_leaks=0"},
        )
        if outcome.returncode != 0:
            raise RuntimeError(outcome.stderr.decode())
        return np.frombuffer(outcome.stdout, a.dtype).reshape(a.shape[0], a.shape[1], b.shape[2])

    def is_right(self, kernel: str, dtype: str, sizes: tuple[int, ...], seed: int, fault: int = NO_FAULT) -> bool:
        """Whether every element of C is as near to the product of random matrices as rounding explains."""
        m, n, k, batch = sizes
        rng = np.random.default_rng(seed)
        a, b = (draw(rng, shape, dtype) for shape in ((batch, m, k), (batch, k, n)))
        c = self.multiply(kernel, dtype, padded(a), padded(b), seed, fault)[:, :m, :n]
        a, b, c = (from_storage(x, dtype).astype(np.float64) for x in (a, b, c))
        exact, magnitude = a @ b, np.abs(a) @ np.abs(b)
        # Each of at most k additions rounds a partial sum, which is at most the sum of magnitudes.
        tolerance = UNIT[dtype] * np.abs(exact) + k * 2.0**-23 * magnitude + SMALLEST
        return bool(np.all(np.abs(c - exact) <= tolerance))


def padded(x: Any) -> Any:
    """With zeros up to whole chunks, as `gpu_task` uploads it."""
    return np.pad(x, [(0, 0), *((0, -extent % CHUNK) for extent in x.shape[1:])])


@pytest.fixture(scope="session")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Emulated:
    folder = tmp_path_factory.mktemp("cuda_on_host")
    jobs = [[*COMPILER, "-shared", "-fPIC", str(EMULATION / "driver.cpp"), "-o", str(folder / "libdriver.so")]]
    for kernel, module in KERNELS.items():
        source = folder / f"{kernel}.cu"
        source.write_text(module.SOURCE)
        faulty = folder / f"{kernel}_faulty.cu"
        faulty.write_text(SWITCH + with_faults(kernel, module.SOURCE))
        runner = str(EMULATION / f"run_{kernel}.cpp")
        for text, dtype, flags in ((source, "bfloat16", ("-DBFLOAT16", *SANITIZERS)), (faulty, "float16", ())):
            program = str(folder / f"{kernel}_{dtype}")
            jobs.append([*COMPILER, *flags, f'-DSOURCE="{text}"', runner, "-o", program])
    for compilation in [subprocess.Popen(job, stderr=subprocess.PIPE, text=True) for job in jobs]:
        _, complaints = compilation.communicate()
        assert compilation.returncode == 0, complaints
    return Emulated(folder)


def with_faults(kernel: str, source: str) -> str:
    """The source with every fault in it, each to be switched on by its number."""
    for number, (right, wrong) in enumerate(FAULTS[kernel].values()):
        assert right in source, right
        source = source.replace(right, wrong.replace("BROKEN", f"broken({number})"))
    return source


sizes = st.tuples(st.integers(1, 140), st.integers(1, 264), st.integers(1, 100), st.integers(1, 2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=sizes, seed=st.integers(0, 1000))
@example(sizes=(1, 1, 1, 1), seed=0)
@example(sizes=(129, 257, 97, 1), seed=1)
@example(sizes=(260, 9, 65, 2), seed=2)
def test_any_sizes_are_multiplied_right(
    emulated: Emulated, kernel: str, dtype: str, sizes: tuple[int, ...], seed: int
) -> None:
    assert emulated.is_right(kernel, dtype, sizes, seed)


@pytest.mark.parametrize("dtype", DTYPES)
def test_clusters_walk_more_tiles_than_there_are_of_them(emulated: Emulated, dtype: str) -> None:
    assert gpu_wgmma.blocks_of(12, multiprocessors=5) == 4
    assert emulated.is_right("wgmma", dtype, (257, 513, 70, 2), seed=3)


@pytest.mark.parametrize(("kernel", "fault"), [(kernel, fault) for kernel in FAULTS for fault in FAULTS[kernel]])
def test_a_fault_in_a_kernel_is_found(emulated: Emulated, kernel: str, fault: str) -> None:
    number = list(FAULTS[kernel]).index(fault)
    sizes = (136, 264, 272, 1) if kernel == "wgmma" else (40, 72, 136, 1)
    for seed in range(4):
        try:
            right = emulated.is_right(kernel, "float16", sizes, seed, fault=number)
        except RuntimeError:
            return
        if not right:
            return
    pytest.fail("every order of the threads gave the right product")


class DeviceArray:
    """As much of a CuPy array as a task uses."""

    def __init__(self, held: Any) -> None:
        self.held, self.shape = held, held.shape
        self.data = SimpleNamespace(ptr=held.ctypes.data)

    def __getitem__(self, part: Any) -> DeviceArray:
        return DeviceArray(self.held[part])

    def set(self, host: Any) -> None:
        self.held[...] = host

    def get(self) -> Any:
        return self.held.copy()


@dataclass
class Kernel:
    """As much of a CuPy kernel as a task uses, run by the emulation."""

    emulated: Emulated
    name: str
    dtype: str
    arrays: list[DeviceArray]
    launches: int = 0
    max_dynamic_shared_size_bytes: int = 0

    def __call__(self, grid: tuple[int], block: tuple[int], arguments: tuple[Any, ...], shared_mem: int) -> None:
        a, b, c = self.arrays
        _, _, threads, shared_bytes = self.emulated.constants(self.name)
        assert (block, shared_mem) == ((threads,), shared_bytes)
        assert self.max_dynamic_shared_size_bytes >= shared_bytes
        operands, sizes = arguments[:3], [int(size) for size in arguments[3:]]
        if self.name == "mma":
            assert list(operands) == [a, b, c]
            tiles = -(-sizes[0] // gpu_mma.TILE_M) * -(-sizes[1] // gpu_mma.TILE_N) * a.shape[0]
            assert grid == (tiles,)
            words, maps = (*sizes, a.shape[0], 0), b""
        else:
            words, maps = (*sizes, *grid, 0), b"".join(x.tobytes() for x in operands)
            assert [int.from_bytes(maps[128 * i : 128 * i + 8], "little") for i in range(3)] == [
                x.data.ptr for x in self.arrays
            ]
        c.set(self.emulated.launch(self.name, self.dtype, words, maps, a.held, b.held))
        self.launches += 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_task_hands_the_kernel_what_it_expects(
    emulated: Emulated, kernel: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays: list[DeviceArray] = []

    def empty(shape: tuple[int, ...], storage: str) -> DeviceArray:
        room = np.empty(int(np.prod(shape)) + 8, storage)
        start = -room.ctypes.data % 16 // room.itemsize
        arrays.append(DeviceArray(room[start : start + int(np.prod(shape))].reshape(shape)))
        return arrays[-1]

    launched = Kernel(emulated, kernel, dtype, arrays)
    module = SimpleNamespace(get_function=lambda name: launched)
    cupy = SimpleNamespace(empty=empty, RawModule=lambda **_: module)
    ours = KERNELS[kernel]
    for where in (ours, gpu_task):
        monkeypatch.setattr(where, "library", lambda name: cupy if name == "cupy" else import_module(name))
    monkeypatch.setattr(gpu_task, "require_device_memory", lambda needed: None)
    monkeypatch.setattr(gpu_task, "synchronize", lambda: None)
    monkeypatch.setattr(ours, "cupy_stream", lambda stream: nullcontext())
    if kernel == "mma":
        monkeypatch.setattr(ours, "require_compute_capability", lambda needed, what: None)
    else:
        monkeypatch.setattr(ours, "compute_capability", lambda: (9, 0))
        monkeypatch.setattr(ours, "attribute", lambda name: 2)
        monkeypatch.setattr(ours, "tensor_map", lambda *where: tensor_map(*where, emulated.driver))
    task = ours.prepare(Point("gemm", "gpu", {"impl": kernel, "dtype": dtype, "shape": "35x19x43x2"}))
    outcome = task.verify()
    assert outcome.passed, outcome
    assert launched.launches == 1
    assert task.work.flops == 2 * 35 * 19 * 43 * 2


def test_the_launches_are_of_the_sizes_that_the_sources_are_written_for(emulated: Emulated) -> None:
    launched = gpu_mma.TILE_M, gpu_mma.TILE_N, gpu_mma.THREADS, gpu_mma.SHARED_BYTES
    assert emulated.constants("mma") == launched
    launched = gpu_wgmma.CLUSTER_M, gpu_wgmma.TILE_N, gpu_wgmma.THREADS, gpu_wgmma.SHARED_BYTES
    assert emulated.constants("wgmma") == launched
    # What a block may have on Hopper, and on the smallest cards that the other kernel runs on (8.6, 8.9, 12.0).
    assert gpu_wgmma.SHARED_BYTES <= 227 * 1024
    assert gpu_mma.SHARED_BYTES <= 99 * 1024


def test_a_tensor_map_that_the_driver_refuses_is_an_error(emulated: Emulated) -> None:
    assert tensor_map(1 << 20, (1, 3, 8), 64, emulated.driver).ctypes.data % 128 == 0
    for address, shape, rows in [(8, (1, 3, 8), 64), (1 << 20, (1, 3, 9), 64), (1 << 20, (1, 3, 8), 257)]:
        with pytest.raises(RuntimeError, match="cuTensorMapEncodeTiled"):
            tensor_map(address, shape, rows, emulated.driver)


def test_the_numbers_of_a_tensor_map_are_those_of_cuda() -> None:
    from cuda.bindings import driver

    from kernels.matmul import tensor_map as ours

    assert driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT16 == ours.UINT16
    assert driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE == ours.NOT_INTERLEAVED
    assert driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B == ours.SWIZZLE_128B
    assert driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B == ours.PROMOTE_TO_256_BYTES
    assert driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE == ours.ZEROS_OUTSIDE


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)], ids=str)
def test_mma_overlaps_copies_loads_and_multiplications(capability: tuple[int, int]) -> None:
    for kernel in gpu_mma.device_code():
        loop = compile_kernel(kernel, capability).loop
        assert count("HMMA.16816.F32", loop) == 64
        assert count("LDSM", loop) == 16
        assert count("LDGSTS", loop) == 6
        assert len(loop) <= 150


def test_wgmma_is_not_serialised() -> None:
    for kernel in gpu_wgmma.device_code():
        code = compile_kernel(kernel, (9, 0))
        multiplications = [line for line in code.instructions if "HGMMA.64x256x16.F32" in line]
        assert len(multiplications) == 4
        assert all("tnspB" in line for line in multiplications)
        # One group for the four, and two waits: ptxas would wait after each if it could not keep the sums in registers.
        assert count("gsb0", multiplications) == 1
        assert count("WARPGROUP.DEPBAR", code.instructions) == 2
        assert count("UTMALDG.3D.MULTICAST", code.instructions) == 2
        assert count("UTMASTG.3D", code.instructions) == 4
        # No fence of all memory in the loop, which a release to the cluster would bring.
        between = code.instructions[code.instructions.index(multiplications[0]) :]
        assert count("MEMBAR", between[: next(i for i, line in enumerate(between) if "BRA" in line)]) == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_machine_code_that_cupy_is_given_is_hoppers(dtype: str) -> None:
    code = gpu_wgmma.machine_code(dtype)
    assert code.startswith(b"\x7fELF")
    assert gpu_wgmma.ENTRY.encode() in code


@pytest.mark.parametrize("module", KERNELS.values(), ids=KERNELS)
def test_other_types_are_skipped(module: ModuleType) -> None:
    with pytest.raises(Skip, match="not float64"):
        module.prepare(Point("matmul", "gpu", {"dtype": "float64", "n": 64}))


@pytest.mark.parametrize("found", [(8, 0), (10, 0), (12, 0)], ids=str)
def test_a_card_without_wgmma_is_skipped_with_what_it_would_need(
    found: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_wgmma, "compute_capability", lambda: found)
    with pytest.raises(Skip, match=re.escape(f"compute capability 9.0, no other, and this device has {found[0]}.")):
        gpu_wgmma.prepare(Point("matmul", "gpu", {"dtype": "bfloat16", "n": 64}))


def count(word: str, lines: Any) -> int:
    return sum(word in line for line in lines)
