"""Our tensor-core kernels on the host: any sizes, any order of the threads, faults that are put in, and their tasks."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from accelbench.kernels.lib.formats import draw
from accelbench.kernels.matmul import gpu_mma, gpu_parts, gpu_task, gpu_wgmma
from accelbench.kernels.matmul.shapes import Product
from accelbench.kernels.matmul.split import ADD_THREADS, adding_blocks
from accelbench.kernels.matmul.tensor_map import tensor_map
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point
from tests.kernels import host_cupy
from tests.kernels.emulation import DTYPES, FAULTS, KERNELS, Emulated


@pytest.fixture(scope="session")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Emulated:
    return Emulated(tmp_path_factory.mktemp("cuda_on_host"))


sizes = st.tuples(st.integers(1, 140), st.integers(1, 264), st.integers(1, 100), st.integers(1, 2))


@pytest.mark.needs("g++")
@pytest.mark.slow
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


@pytest.mark.needs("g++")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "parts"),
    [
        (33, 1),
        pytest.param(70, 1, marks=pytest.mark.exhaustive),
        pytest.param(200, 1, marks=pytest.mark.exhaustive),
        (130, 3),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_clusters_walk_more_tiles_than_there_are_of_them(emulated: Emulated, dtype: str, k: int, parts: int) -> None:
    """One stage per tile is among them: the next tile then begins and ends while the one before is stored."""
    assert gpu_wgmma.blocks_of(12, multiprocessors=5) == 4
    assert emulated.is_right("wgmma", dtype, (257, 513, k, 2), seed=3, parts=parts)


@pytest.mark.needs("g++")
@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ((129, 257, 97, 1), 2),
        pytest.param((40, 8, 1000, 1), 16, marks=pytest.mark.exhaustive),
        ((9, 17, 640, 2), 10),
        pytest.param((260, 65, 129, 2), 3, marks=pytest.mark.exhaustive),
    ],
    ids=str,
)
def test_parts_of_k_are_added_right(
    emulated: Emulated, kernel: str, dtype: str, sizes: tuple[int, ...], parts: int
) -> None:
    assert emulated.is_right(kernel, dtype, sizes, seed=4, parts=parts)


@pytest.mark.needs("g++")
@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 9])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_same_input_gives_the_same_bits_in_any_order_of_the_threads(
    emulated: Emulated, kernel: str, parts: int
) -> None:
    rng = np.random.default_rng(5)
    a, b = (draw(rng, shape, "float16") for shape in ((1, 40, 640), (1, 640, 16)))
    first, second = (emulated.multiply(kernel, "float16", a, b, seed, parts=parts) for seed in (1, 2))
    assert first.tobytes() == second.tobytes()


@pytest.mark.needs("g++")
@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "fault"), [(kernel, fault) for kernel in FAULTS for fault in FAULTS[kernel]])
def test_a_fault_in_a_kernel_is_found(emulated: Emulated, kernel: str, fault: str) -> None:
    number = list(FAULTS[kernel]).index(fault)
    sizes = (136, 264, 272, 1) if kernel == "wgmma" else (40, 72, 136, 1)
    for seed in range(4):
        for parts in (1, 3):
            try:
                # One cluster, so that it walks two tiles.
                right = emulated.is_right(kernel, "float16", sizes, seed, fault=number, parts=parts, multiprocessors=2)
            except RuntimeError:
                return
            if not right:
                return
    pytest.fail("every order of the threads gave the right product")


@dataclass
class Device:
    """The part of a CuPy module that a task uses; the emulation runs both kernels, and C is there when both ran."""

    emulated: Emulated
    name: str
    arrays: list[Any]
    options: tuple[str, ...] = ()
    launches: list[str] = field(default_factory=list)
    product: Any = None

    def get_function(self, name: str) -> Any:
        launch = {gpu_parts.ENTRY: self.add}.get(name, self.multiply)
        return Kernel(launch)

    @property
    def parts(self) -> bool:
        return "-DPARTS" in self.options

    def multiply(self, kernel: Kernel, grid: tuple[int], block: tuple[int], arguments: Any, shared_mem: int) -> None:
        a, b, c, workspace = self.arrays
        _, _, deep, threads, shared_bytes, _ = self.emulated.constants(self.name, *self.options)
        assert (block, shared_mem) == ((threads,), shared_bytes)
        assert kernel.max_dynamic_shared_size_bytes >= shared_bytes
        batch, m, k = a.shape
        size = Product(m, c.shape[2], k, batch)
        depth = int(arguments[-1])
        parts = -(-k // depth)
        assert depth % deep == 0
        assert self.parts == (parts > 1)
        assert workspace.nbytes == (parts * c.size * 4 if parts > 1 else 0)
        if self.name == "mma":
            result = workspace if self.parts else c
            assert all(x is y for x, y in zip(arguments[:3], (a, b, result), strict=True))
            assert [int(word) for word in arguments[3:]] == [m, size.n, k, depth]
            assert grid == (gpu_mma.tile_for(size).all(size) * parts,)
            words, maps = (m, size.n, k, batch, depth, 0), b""
        else:
            maps = b"".join(x.tobytes() for x in arguments[:3])
            assert [int.from_bytes(maps[128 * i : 128 * i + 8], "little") for i in range(3)] == [
                x.data.ptr for x in (a, b, c)
            ]
            assert arguments[3] is workspace
            assert [int(word) for word in arguments[4:]] == [m, size.n, k, batch, depth]
            words = (m, size.n, k, batch, depth, *grid, 0)
        self.launches.append("multiply")
        self.product = self.emulated.launch(self.name, self.options, words, maps, a, b)
        if not self.parts:
            c.set(self.product)

    def add(self, kernel: Kernel, grid: tuple[int], block: tuple[int], arguments: Any) -> None:
        *_, c, workspace = self.arrays
        assert self.emulated.constants(self.name, *self.options)[-1] == ADD_THREADS
        assert (grid, block) == ((adding_blocks(c.size, 4),), (ADD_THREADS,))
        assert arguments[0] is workspace
        assert arguments[1] is c
        assert [int(word) for word in arguments[2:]] == [c.size, workspace.nbytes // (4 * c.size)]
        self.launches.append("add")
        c.set(self.product)


@dataclass
class Kernel:
    launch: Any
    max_dynamic_shared_size_bytes: int = 0

    def __call__(self, *arguments: Any, **named: Any) -> None:
        self.launch(self, *arguments, **named)


@pytest.mark.needs("g++")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "launches"),
    [("35x19x43x2", ["multiply"]), ("2x35x19x1100", ["multiply", "add"]), ("35x81x600", ["multiply", "add"])],
)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_task_hands_the_kernel_what_it_expects(
    emulated: Emulated, kernel: str, dtype: str, shape: str, launches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays: list[Any] = []

    def empty(shape: Any, storage: str) -> Any:
        arrays.append(host_cupy.empty(shape, storage))
        return arrays[-1]

    device = Device(emulated, kernel, arrays)

    def module(**given: Any) -> Device:
        if kernel == "mma":
            assert given["code"] == gpu_mma.SOURCE
            device.options = given["options"]
        return device

    cupy = SimpleNamespace(empty=empty, RawModule=module)
    ours = KERNELS[kernel]
    monkeypatch.setattr(ours, "library", lambda name: cupy if name == "cupy" else import_module(name))
    monkeypatch.setattr(gpu_task, "cupy_library", lambda: cupy)
    needed: list[int] = []
    monkeypatch.setattr(gpu_task, "require_device_memory", needed.append)
    monkeypatch.setattr(gpu_task, "synchronize", lambda: None)
    monkeypatch.setattr(ours, "cupy_stream", lambda stream: nullcontext())
    monkeypatch.setattr(ours, "attribute", lambda name: 20)
    if kernel == "mma":
        monkeypatch.setattr(ours, "require_compute_capability", lambda needed, what: None)
    else:
        monkeypatch.setattr(ours, "compute_capability", lambda: (9, 0))
        monkeypatch.setattr(ours, "tensor_map", lambda *where: tensor_map(*where, emulated.driver))
        compiled = gpu_wgmma.machine_code

        def machine_code(options: tuple[str, ...]) -> bytes:
            device.options = options
            return compiled(options)

        monkeypatch.setattr(ours, "machine_code", machine_code)
    task = ours.prepare(Point("gemm", "gpu", {"impl": kernel, "dtype": dtype, "shape": shape}))
    outcome = task.verify()
    assert outcome.passed, outcome
    assert device.launches == launches
    assert needed == [sum(array.nbytes for array in arrays)]
    assert task.work.flops == Product.parse(shape).flops


@pytest.mark.needs("g++")
def test_the_launches_are_of_the_sizes_that_the_sources_are_written_for(emulated: Emulated) -> None:
    options = gpu_parts.options("float16", parts=1)
    for tile in (gpu_mma.WIDE, gpu_mma.NARROW):
        launched = tile.rows, tile.columns, gpu_mma.SLICE, tile.threads, tile.shared_bytes, ADD_THREADS
        assert emulated.constants("mma", *options, *tile.options) == launched
    launched = gpu_wgmma.CLUSTER_M, gpu_wgmma.TILE_N, gpu_wgmma.TILE_K, gpu_wgmma.THREADS, gpu_wgmma.SHARED_BYTES
    assert emulated.constants("wgmma", *options) == (*launched, ADD_THREADS)
    # What a block may have on Hopper, and on the smallest cards that the other kernel runs on (8.6, 8.9, 12.0).
    assert gpu_wgmma.SHARED_BYTES <= 227 * 1024
    assert max(gpu_mma.WIDE.shared_bytes, gpu_mma.NARROW.shared_bytes) <= 99 * 1024


@pytest.mark.needs("g++")
def test_a_tensor_map_that_the_driver_refuses_is_an_error(emulated: Emulated) -> None:
    assert tensor_map(1 << 20, (1, 3, 8), 64, emulated.driver).ctypes.data % 128 == 0
    for address, shape, rows in [(8, (1, 3, 8), 64), (1 << 20, (1, 3, 9), 64), (1 << 20, (1, 3, 8), 257)]:
        with pytest.raises(RuntimeError, match="cuTensorMapEncodeTiled"):
            tensor_map(address, shape, rows, emulated.driver)


def test_the_numbers_of_a_tensor_map_are_those_of_cuda() -> None:
    from cuda.bindings import driver

    from accelbench.kernels.matmul import tensor_map as ours

    assert driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT16 == ours.UINT16
    assert driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE == ours.NOT_INTERLEAVED
    assert driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B == ours.SWIZZLE_128B
    assert driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B == ours.PROMOTE_TO_256_BYTES
    assert driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE == ours.ZEROS_OUTSIDE


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_machine_code_that_cupy_is_given_is_hoppers(dtype: str, parts: int) -> None:
    code = gpu_wgmma.machine_code(gpu_parts.options(dtype, parts))
    assert code.startswith(b"\x7fELF")
    assert gpu_wgmma.ENTRY.encode() in code
    assert gpu_parts.ENTRY.encode() in code


def test_a_small_c_of_a_long_k_keeps_an_h100_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in KERNELS.values():
        monkeypatch.setattr(module, "attribute", lambda name: 132)
    deep = Product(512, 8, 500_000)
    assert gpu_mma.tile_for(deep) == gpu_mma.NARROW
    assert gpu_mma.NARROW.all(deep) * gpu_mma.parts_for(deep) == 2 * 132
    assert gpu_wgmma.tiles(deep) * gpu_wgmma.parts_for(deep) == 132 // 2
    assert gpu_mma.workspace(deep) == 132 * 512 * 8 * 4
    square = Product(4096, 4096, 4096)
    assert gpu_mma.tile_for(square) == gpu_mma.WIDE
    assert gpu_mma.parts_for(square) == gpu_wgmma.parts_for(square) == 1
    assert gpu_mma.workspace(square) == gpu_wgmma.workspace(square) == 0


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
