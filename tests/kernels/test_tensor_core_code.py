"""The machine code of our tensor-core kernels: what overlaps, what is read at once, and that nothing is serialised."""

from __future__ import annotations

import re
from typing import Any

import pytest

from accelbench.kernels.lib.gpu.compilation import compile_kernel
from accelbench.kernels.matmul import gpu_mma, gpu_parts, gpu_wgmma


@pytest.mark.slow
@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)], ids=str)
def test_mma_overlaps_copies_loads_and_multiplications(capability: tuple[int, int]) -> None:
    for kernel in gpu_mma.device_code():
        loop = compile_kernel(kernel, capability).loop
        narrow = "narrow" in kernel.name.split()
        assert count("HMMA.16816.F32", loop) == 64
        assert count("LDSM", loop) == 16
        assert count("LDGSTS", loop) == (10 if narrow else 6)
        assert len(loop) <= (180 if narrow else 150)


@pytest.mark.slow
def test_wgmma_is_not_serialised() -> None:
    for kernel in gpu_wgmma.device_code():
        code = compile_kernel(kernel, (9, 0))
        parts = "parts" in kernel.name.split()
        multiplications = [line for line in code.instructions if "HGMMA.64x256x16.F32" in line]
        # A tile's first stage, and the loop of the others.
        assert len(multiplications) == 8
        assert all("tnspB" in line for line in multiplications)
        # One group for each 4, and two waits: ptxas would wait after each if it could not keep the sums in registers.
        assert count("gsb0", multiplications) == 2
        assert count("WARPGROUP.DEPBAR", code.instructions) == 2
        assert count("UTMALDG.3D.MULTICAST", code.instructions) == 2
        # In the loop over tiles, and after the last of them.
        assert count("UTMASTG.3D", code.instructions) == (0 if parts else 8)
        assert count("STG.E.64", code.instructions) == (64 if parts else 0)
        # No fence of all memory in the loop, which a release to the cluster would bring.
        assert count("HGMMA", code.loop) == 4
        assert count("MEMBAR", code.loop) == 0


def test_wgmma_stores_a_tile_while_the_tensor_cores_begin_the_next() -> None:
    for kernel in gpu_wgmma.device_code():
        if "parts" in kernel.name.split():
            continue
        instructions = compile_kernel(kernel, (9, 0)).instructions
        last_of_first_stage, *_, last = (place for place, line in enumerate(instructions) if "gsb0" in line)
        between = instructions[last_of_first_stage + 1 : last]
        assert count("STSM", between) == 16
        assert count("UTMASTG.3D", between) == 4
        # From the sums' end to the next tile nothing is stored, and all sums are rounded.
        done = next(place for place, line in enumerate(instructions) if "WARPGROUP.DEPBAR.LE gsb0, 0x0" in line)
        after = instructions[done:]
        rounding = after[: next(place for place, line in enumerate(after) if re.search(r"\bBRA\b", line))]
        assert count("F2FP", rounding) == 64
        assert count("STSM", rounding) == 0


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)], ids=str)
def test_the_sums_of_parts_are_read_16_bytes_at_a_time_and_8_at_once(capability: tuple[int, int]) -> None:
    for kernel in gpu_parts.device_code():
        loop = compile_kernel(kernel, capability).loop
        reading = loop[: next(place for place, line in enumerate(loop) if "FADD" in line)]
        assert count("LDG.E.128", reading) == count("LDG", loop) == 8
        assert count("FADD", loop) == 32


def count(word: str, lines: Any) -> int:
    return sum(word in line for line in lines)
