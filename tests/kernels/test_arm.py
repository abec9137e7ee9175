"""Every CPU kernel compiles for ARM's vectors, and its loops contain the expected instructions.

`tests.kernels.cross` compiles the kernels for three ARM CPUs, and the tests inspect the assembly. `test_arm_emulated`
tests the results. The speed is not tested.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FMA_CHAINS = 28
"""Sums of `fma_chains` with 32 registers."""
TILE_FMAS = 24
"""FMAs in a step of a tile of 12 rows and two vectors."""
TRIPLE = "aarch64-unknown-linux-gnu"


@dataclass(frozen=True)
class Arm:
    """CPU: LLVM's name, additional extensions, and bytes of an SVE register (0 without SVE)."""

    name: str
    features: str
    sve_bytes: int

    @property
    def registers(self) -> str:
        """Letter of the vector registers: `z` if SVE is wider than NEON."""
        return "z" if self.sve_bytes > 16 else "v"


CPUS = (
    Arm("neoverse-n1", "+neon", 0),
    Arm("neoverse-v1", "+neon,+sve", 32),
    Arm("a64fx", "+neon,+sve", 64),
)


@dataclass(frozen=True)
class Code:
    """Directory with the compiled code for one CPU."""

    cpu: Arm
    folder: Path

    @cached_property
    def symbols(self) -> list[tuple[str, str, str, str]]:
        """Return module, name, types and symbol of each kernel; the file names are the indices in this list."""
        return [(*symbol,) for symbol in json.loads((self.folder / "symbols.json").read_text())]

    def numbers(self, module: str, name: str, types: str) -> list[int]:
        """Return the indices of the kernels with the given name and with all words of `types` in their types."""
        return [i for i, (m, n, t, _) in enumerate(self.symbols) if (m, n) == (module, name) and types in t]

    def number(self, module: str, name: str, types: str) -> int:
        """Return the index of the only such kernel."""
        (found,) = self.numbers(module, name, types)
        return found

    def function(self, number: int) -> list[str]:
        """Return the instructions and labels of a kernel, without its Python wrapper."""
        symbol = re.escape(self.symbols[number][3])
        text = (self.folder / f"{number}.s").read_text()
        (body,) = re.findall(rf'^"?{symbol}"?:\n(.*?)^\.Lfunc_end', text, re.MULTILINE | re.DOTALL)
        return [line.strip() for line in body.splitlines() if line.strip()]


def loops(lines: list[str]) -> list[list[str]]:
    """Return the spans of all backward branches, the shortest first."""
    places = {line.removesuffix(":"): i for i, line in enumerate(lines) if line.endswith(":")}
    found = []
    for i, line in enumerate(lines):
        target = re.match(r"(?:b|b\.\w+|cbn?z|tbn?z)\s.*?(\.LBB\w+)$", line)
        if target and places.get(target[1], i) < i:
            found.append(lines[places[target[1]] : i + 1])
    return sorted(found, key=len)


# Compiling all kernels takes a minute: continuous integration does it for NEON.
VARIANTS = [pytest.param(cpu, marks=[pytest.mark.exhaustive] if cpu.sve_bytes else []) for cpu in CPUS]


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda cpu: f"{cpu.name}-{8 * cpu.sve_bytes}")
def code(request, tmp_path_factory):
    """Compiled code of all kernels for one CPU."""
    cpu = request.param
    folder = tmp_path_factory.mktemp(cpu.name)
    command = [sys.executable, "-m", "tests.kernels.cross", "compile", str(folder), TRIPLE]
    there = os.environ | {"NUMBA_CPU_NAME": cpu.name, "NUMBA_CPU_FEATURES": cpu.features, "NUMBA_NUM_THREADS": "2"}
    subprocess.run([*command, str(cpu.sve_bytes)], env=there, check=True)
    return Code(cpu, folder)


def test_every_kernel_compiles_and_calls_nothing_of_another_architecture(code):
    for number in range(len(code.symbols)):
        text = (code.folder / f"{number}.s").read_text()
        assert "llvm." not in re.sub(r"^\s*\..*$", "", text, flags=re.MULTILINE), code.symbols[number]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_arithmetic_peak_is_one_loop_of_fmas_on_registers(code, dtype):
    lines = code.function(code.number("accelbench.kernels.peak_arith.cpu_fma", "run_rounds", f"Array({dtype}"))
    fma = re.compile(rf"fmla\s+{code.cpu.registers}\d")
    multiplying = [loop for loop in loops(lines) if any(map(fma.match, loop))]
    chains = multiplying[0]  # the shortest: LLVM may have unrolled another
    assert sum(bool(fma.match(line)) for line in chains) == FMA_CHAINS
    assert len(chains) <= FMA_CHAINS + 4  # a label, a counter, a branch
    assert not [line for line in chains if re.match("ld|st", line)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_tile_of_the_matrix_product_keeps_its_sums_in_registers(code, dtype):
    fma = re.compile(rf"(fmla|fmad)\s+{code.cpu.registers}\d")
    for number in code.numbers("accelbench.kernels.matmul.cpu_numba", "multiply_block", f"Array({dtype}"):
        multiplying = [loop for loop in loops(code.function(number)) if any(map(fma.match, loop))]
        inner = [loop for loop in multiplying if not any(o is not loop and o[0] in loop for o in multiplying)]
        # Of complete and of half tiles.
        assert max(sum(bool(fma.match(line)) for line in loop) for loop in inner) >= TILE_FMAS
        assert not [line for loop in inner for line in loop if line.startswith("st") or "[sp" in line]


@pytest.mark.parametrize("operation", ["copy_part", "mul_part", "add_part", "triad_part"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_stream_writes_past_the_cache_where_one_register_can(code, operation, dtype):
    """NEON has non-temporal stores for pairs of registers only; LLVM replaces single ones by ordinary stores."""
    lines = code.function(code.number("accelbench.kernels.stream.cpu_numba", operation, f"Array({dtype}"))
    past, ordinary = (any(re.match(pattern, line) for line in lines) for pattern in ("stnt1[wd]", "str\\s+q|stp\\s+q"))
    assert (past, ordinary) == (code.cpu.sve_bytes > 16, code.cpu.sve_bytes <= 16)
