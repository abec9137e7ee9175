"""Our tensor-core kernels on the host: the same source against an emulation of the instructions that it is made of.

`cuda_on_host/` emulates threads, copies, barriers and matrix instructions as the PTX ISA defines them. What is still on
its way reads as NaN, and threads take turns in an order drawn from a seed. g++ compiles it.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accelbench.kernels.lib.formats import draw, from_storage
from accelbench.kernels.matmul import gpu_mma, gpu_parts, gpu_wgmma
from accelbench.kernels.matmul.shapes import Product
from accelbench.kernels.matmul.split import slices_each
from accelbench.kernels.matmul.tensor_map import tensor_map

EMULATION = Path(__file__).with_name("cuda_on_host")
COMPILER = ("g++", "-std=c++17", "-O1", "-w", "-Wno-psabi")
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


ADDING = {
    "no wait for the other adders": (
        "added[adder][lane] = sum;\n    __syncthreads();",
        "added[adder][lane] = sum;\n    if (!BROKEN) __syncthreads();",
    ),
    "a part is not added": instead("other < ADDERS", "other < 2"),
}
FAULTS = {
    "mma": ADDING
    | {
        "no wait for copies": without("cp_async_wait<STAGES - 2>();"),
        "no wait for the block": without("__syncthreads();"),
        "no wait for the warp": without("__syncwarp();"),
        "no copies of later stages": without("copies.start(writing, a);"),
        "C read without its swizzle": ("(chunk ^ (row & 7)) * 16);", "(BROKEN ? chunk : chunk ^ (row & 7)) * 16);"),
        "one half of B twice": instead("2 * j + half", "2 * j"),
        "B not transposed": ("ldmatrix_x4_trans(b[j],", "(BROKEN ? ldmatrix_x4 : ldmatrix_x4_trans)(b[j],"),
        "every part begins at the first k": instead("matrix / batches * depth", "0"),
        "a part goes on to the end": instead("min(depth, k - k0)", "k - k0"),
    },
    "wgmma": ADDING
    | {
        "no wait for copies": without("mbarrier_wait(full + 8 * place.stage, place.round);"),
        "no wait for a free stage": without("mbarrier_wait(empty + 8 * place.stage, place.round ^ 1);"),
        "no wait for the neighbour's readers": instead("CLUSTER * CONSUMERS * 4", "CONSUMERS * 4"),
        "a stage given back too early": without("wgmma_wait<1>();"),
        "no wait for the sums": without("wgmma_wait<0>();"),
        "no fence before wgmma": without("wgmma_fence();"),
        "no fence before the stores": without("fence_proxy_async();"),
        "no wait for the warp's results": (
            "fence_proxy_async();\n        __syncwarp();",
            "fence_proxy_async();\n        if (!BROKEN) __syncwarp();",
        ),
        "no wait for the stores": without("bulk_wait_read<1>();"),
        "barriers not announced": without("fence_mbarrier_init();"),
        "no wait for the neighbour's barriers": ("cluster_sync();\n\n", "if (!BROKEN) cluster_sync();\n\n"),
        "leaving before the neighbour": ("cluster_sync();\n}\n", "if (!BROKEN) cluster_sync();\n}\n"),
        "C written without its swizzle": instead("((2 * i + chunk) ^ turned)", "(2 * i + chunk)"),
        "the strides of B exchanged": ("PANEL_B, PATTERN)", "BROKEN ? PATTERN : PANEL_B, BROKEN ? PANEL_B : PATTERN)"),
        "one half of B twice": ("+ rank * PANELS_LOADED * PANEL;", "+ (BROKEN ? 0 : rank * PANELS_LOADED * PANEL);"),
        "sums begun anew each turn": instead("!ANEW || step > 0", "step > 0"),
        "sums of the tile before go on": instead("!ANEW || step > 0", "true"),
        "a tile stored in the place of the next": (
            "if (!IN_PARTS && number > cluster) store_tile(rounded, &map_c, buffers, before,",
            "if (!IN_PARTS && number > cluster) store_tile(rounded, &map_c, buffers, BROKEN ? work : before,",
        ),
        "every part begins at the first k": instead("matrix / sizes.batches * sizes.depth", "0"),
        "a part goes on to the end": instead("min(sizes.depth, sizes.k - k)", "sizes.k - k"),
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
    programs: dict[tuple[str, ...], Path] = field(default_factory=dict)

    @property
    def driver(self) -> str:
        library = self.folder / "libdriver.so"
        if not library.exists():
            compile_for_host("-shared", "-fPIC", str(EMULATION / "driver.cpp"), "-o", str(library))
        return str(library)

    def program(self, kernel: str, options: tuple[str, ...]) -> Path:
        """The kernel as those options compile it, when it is first asked for."""
        key = kernel, *options
        if key not in self.programs:
            faulty = "-DBFLOAT16" not in options
            source, program = (self.folder / f"{len(self.programs)}{suffix}" for suffix in (".cu", ""))
            text = KERNELS[kernel].SOURCE
            source.write_text(with_faults(FAULTS[kernel], text) if faulty else text)
            flags = () if faulty else SANITIZERS
            runner = str(EMULATION / f"run_{kernel}.cpp")
            compile_for_host(*flags, *options, f'-DSOURCE="{source}"', runner, "-o", str(program))
            self.programs[key] = program
        return self.programs[key]

    def constants(self, kernel: str, *options: str) -> tuple[int, ...]:
        program = self.program(kernel, options)
        printed = subprocess.run([program], capture_output=True, check=True, text=True)
        return tuple(int(word) for word in printed.stdout.split())

    def multiply(
        self,
        kernel: str,
        dtype: str,
        a: Any,
        b: Any,
        seed: int,
        fault: int = NO_FAULT,
        parts: int = 1,
        multiprocessors: int = 5,
    ) -> Any:
        """C of padded arrays, all as they are stored; RuntimeError with what the emulation objects to.

        k is split into at most that many parts, none of them empty.
        """
        batch, m, k = a.shape
        size = Product(m, b.shape[2], k, batch)
        deep = gpu_mma.SLICE if kernel == "mma" else gpu_wgmma.TILE_K
        each = slices_each(-(-k // deep), parts)
        parts, depth = -(-k // (each * deep)), each * deep
        words: tuple[int, ...] = (m, size.n, k, batch, depth, seed)
        options, maps = gpu_parts.options(dtype, parts), b""
        if kernel == "mma":
            options += gpu_mma.tile_for(size).options
        else:
            boxes = ((a.shape, gpu_wgmma.BOX_A), (b.shape, gpu_wgmma.BOX_B), ((batch, m, size.n), gpu_wgmma.BOX_C))
            maps = b"".join(tensor_map(1 << 20, shape, rows, self.driver).tobytes() for shape, rows in boxes)
            blocks = gpu_wgmma.blocks_of(gpu_wgmma.tiles(size) * parts, multiprocessors)
            words = (*words[:-1], blocks, seed)
        return self.launch(kernel, options, words, maps, a, b, fault)

    def launch(
        self,
        kernel: str,
        options: tuple[str, ...],
        words: tuple[int, ...],
        maps: bytes,
        a: Any,
        b: Any,
        fault: int = NO_FAULT,
    ) -> Any:
        outcome = subprocess.run(
            [self.program(kernel, options), *map(str, words)],
            input=maps + a.tobytes() + b.tobytes(),
            capture_output=True,
            env=os.environ | {"FAULT": str(fault), "ASAN_OPTIONS": "detect_leaks=0"},
        )
        if outcome.returncode != 0:
            raise RuntimeError(outcome.stderr.decode())
        return np.frombuffer(outcome.stdout, a.dtype).reshape(a.shape[0], a.shape[1], b.shape[2])

    def is_right(self, kernel: str, dtype: str, sizes: tuple[int, ...], seed: int, **how: int) -> bool:
        """Return whether every element of C is as near to the product of random matrices as rounding explains."""
        m, n, k, batch = sizes
        rng = np.random.default_rng(seed)
        a, b = (draw(rng, shape, dtype) for shape in ((batch, m, k), (batch, k, n)))
        c = self.multiply(kernel, dtype, padded(a), padded(b), seed, **how)[:, :m, :n]
        a, b, c = (from_storage(x, dtype).astype(np.float64) for x in (a, b, c))
        exact, magnitude = a @ b, np.abs(a) @ np.abs(b)
        # Each of at most k additions rounds a partial sum, which is at most the sum of magnitudes.
        tolerance = UNIT[dtype] * np.abs(exact) + k * 2.0**-23 * magnitude + SMALLEST
        return bool(np.all(np.abs(c - exact) <= tolerance))


def padded(x: Any) -> Any:
    """Return the array with zeros up to whole chunks, as `gpu_task` uploads it."""
    return np.pad(x, [(0, 0), *((0, -extent % CHUNK) for extent in x.shape[1:])])


def compile_for_host(*arguments: str) -> None:
    compilation = subprocess.run([*COMPILER, *arguments], capture_output=True, text=True)
    assert compilation.returncode == 0, compilation.stderr


def with_faults(faults: dict[str, tuple[str, str]], source: str) -> str:
    """The source with every fault in it, each to be switched on by its number."""
    for number, (right, wrong) in enumerate(faults.values()):
        assert right in source, right
        source = source.replace(right, wrong.replace("BROKEN", f"broken({number})"))
    return SWITCH + source
