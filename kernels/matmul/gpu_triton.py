"""C = A·B in Triton, as its users write it: a program per tile, pointers to tiles, `tl.dot`.

Bound: tensor-core FLOP, for float32 FMA. Triton maps `tl.dot` to mma.sync on compute capability 8 and 12, to wgmma on
9.0 and to tcgen05 on 10.0, and pipelines the loads by cp.async. k is not split, so that a deep product with a small
result occupies few multiprocessors.

The tile is chosen by arithmetic from a fixed list (`tile_for`), not by timing. Compiled by Triton 3.9 in 16 bits for
the 128×256 tile: 242–255 registers for 8.0, 184–220 for 9.0, no spills; 96 KiB of shared memory on 8 and 12, 144 KiB on
9.0 and 10.0. One iteration of the main loop for 9.0 has 103 instructions if k is a multiple of 64, else 140; 87 % of
the main loop in float32 are FFMA. In tf32, 80 bytes are spilled for 10.0, outside of the loop. Not measured yet on a
GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from accelbench.kernels.lib.formats import FORMATS
from accelbench.kernels.lib.gpu.device_code import DeviceKernel, TritonKernel
from accelbench.kernels.lib.gpu.triton_compiler import bind_triton, require_triton
from accelbench.kernels.matmul.gpu_task import ALIGNMENT, MatmulOperands, gpu_task
from accelbench.kernels.matmul.shapes import Product
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.machine.nvidia.cuda import attribute
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

GROUP = 8
"""Rows of tiles that concurrent blocks compute."""
INTENSITY = 85
"""Multiply-adds of a tile per element of its operands at which tensor cores and L2 take equally long: 2,048 in 16 bits
per clock and 24 elements (48 bytes), on an H100 multiprocessor."""


@dataclass(frozen=True)
class TritonTile:
    """Tile of C computed by a block, its depth in k, and its launch."""

    m: int
    n: int
    k: int
    warps: int
    stages: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    def tiles(self, size: Product) -> int:
        """Return the number of tiles of a matrix of the batch."""
        return -(-size.m // self.m) * -(-size.n // self.n)

    def cost(self, size: Product, multiprocessors: int) -> int:
        """Return the relative time of a product: waves of tiles times the time of a tile per depth."""
        waves = -(-self.tiles(size) * size.batch // multiprocessors)
        return waves * max(self.m * self.n, INTENSITY * (self.m + self.n))


@dataclass(frozen=True)
class TritonType:
    """Type of the matrices in Triton, precision of `tl.dot`, and tiles, the largest first."""

    name: str
    precision: str
    tiles: tuple[TritonTile, ...]


HALF = (TritonTile(128, 256, 64, 8, 3), TritonTile(128, 128, 64, 8, 3), TritonTile(64, 64, 64, 4, 4))
TYPES = {
    "float16": TritonType("fp16", "ieee", HALF),
    "bfloat16": TritonType("bf16", "ieee", HALF),
    "tf32": TritonType(
        "fp32", "tf32", (TritonTile(128, 256, 32, 8, 3), TritonTile(128, 128, 32, 8, 3), TritonTile(64, 64, 32, 4, 4))
    ),
    "float32": TritonType("fp32", "ieee", (TritonTile(128, 64, 16, 8, 3), TritonTile(64, 64, 16, 8, 3))),
}


def prepare(point: Point) -> Task:
    """Return the point's task; Skip without Triton, a supported type or device, or enough memory."""
    dtype = str(point["dtype"])
    if dtype not in TYPES:
        raise Skip(f"the Triton kernel supports {', '.join(TYPES)}, not {dtype}")
    require_triton()
    return gpu_task(point, bind)


def tile_for(dtype: str, size: Product, multiprocessors: int) -> TritonTile:
    """Return the tile with the lowest cost, the largest of equal ones. Every tile fits on every device."""
    return min(TYPES[dtype].tiles, key=lambda tile: tile.cost(size, multiprocessors))


def kernel_for(dtype: str, tile: TritonTile, whole: bool) -> TritonKernel:
    """Return the kernel for a type and a tile; `whole` means that k is a multiple of the tile's depth."""
    kind = TYPES[dtype]
    return TritonKernel(
        " ".join(("matmul triton", dtype, str(tile), *(("whole",) if whole else ()))),
        "accelbench.kernels.matmul.triton_product",
        "matmul_triton",
        arguments=(
            *((name, f"*{kind.name}") for name in ("a", "b", "c")),
            *((name, "i32") for name in ("m", "n_units", "k_units")),
        ),
        constants=(
            ("UNIT", unit(dtype)),
            ("TILE_M", tile.m),
            ("TILE_N", tile.n),
            ("TILE_K", tile.k),
            ("GROUP", GROUP),
            ("WHOLE", whole),
            ("PRECISION", kind.precision),
        ),
        warps=tile.warps,
        stages=tile.stages,
        unit=str(tile),
    )


def unit(dtype: str) -> int:
    """Return the number of elements in 16 bytes, of which every size is a multiple."""
    return ALIGNMENT // FORMATS[dtype].itemsize


def bind(operands: MatmulOperands) -> Callable[[int], None]:
    """Return `run(stream)`, which enqueues the product of the padded arrays."""
    size, dtype = operands.padded, operands.dtype
    tile = tile_for(dtype, size, attribute("MultiProcessorCount"))
    arguments = (operands.a, operands.b, operands.c, size.m, size.n // unit(dtype), size.k // unit(dtype))
    return bind_triton(kernel_for(dtype, tile, size.k % tile.k == 0), (tile.tiles(size), size.batch), arguments)


def device_code() -> list[DeviceKernel]:
    """Return the kernels: for each type and tile one for multiples of the tile's depth, and one for any k."""
    return [
        kernel_for(dtype, tile, whole)
        for dtype, kind in TYPES.items()
        for tile in kind.tiles
        for whole in (True, False)
    ]
