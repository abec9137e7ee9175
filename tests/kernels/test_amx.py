"""AMX tile instructions without a CPU that has them: results by emulation, and the code for Sapphire Rapids.

Each instruction is replaced by a function that emulates it according to Intel's manual, on the tiles of its thread. So
the kernels run as compiled by Numba, with all addresses, counts and orders; only the instructions are emulated.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.kernels.lib.cpu import amx
from accelbench.kernels.lib.cpu.amx import (
    INSTRUCTIONS,
    TileDot,
    find_tile_dot,
    interleaved,
    refusal,
    tile_configuration,
)
from accelbench.kernels.lib.cpu.threads import compiled, parallel
from accelbench.kernels.lib.formats import from_storage
from accelbench.kernels.peak_arith import cpu_dots, cpu_tiles, peak_arith
from accelbench.kernels.peak_arith.narrow_task import to_bytes
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.records.point import Point

AMX = frozenset({"amx-tile", "amx-int8", "amx-bf16"})
VECTORS = frozenset({"avx512f", "avx512vnni", "avx512bf16"})
EMULATED = "emulated_"
DTYPES = ("int8", "bfloat16")


@dataclass
class Machine:
    """Emulated tiles of every thread that has configured them, and the recorded faults."""

    tiles: dict[int, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    configured: int = 0
    multiplied: int = 0

    def tile(self, number: int) -> Any:
        """Return 16 rows of 64 bytes; raise KeyError if the thread has not configured tiles."""
        return self.tiles[threading.get_ident()][number]

    def ldtilecfg(self, place: int) -> None:
        content = np.frombuffer(ctypes.string_at(place, 64), np.uint8)
        bytes_of_row, rows = content[16:48].view("<u2"), content[48:64]
        full = [(64, 16)] * 8 + [(0, 0)] * 8
        if (content[0], *content[1:16]) != (1,) + (0,) * 15 or list(zip(bytes_of_row, rows, strict=True)) != full:
            raise ValueError(f"invalid configuration: {bytes(content)!r}")
        self.configured += 1
        self.tiles[threading.get_ident()] = np.zeros((8, 16, 64), np.uint8)

    def tilerelease(self) -> None:
        del self.tiles[threading.get_ident()]

    def tileloadd64(self, number: int, place: int, stride: int) -> None:
        for row in range(16):
            self.tile(number)[row] = np.frombuffer(ctypes.string_at(place + row * stride, 64), np.uint8)

    def tilestored64(self, number: int, place: int, stride: int) -> None:
        for row in range(16):
            ctypes.memmove(place + row * stride, self.tile(number)[row].tobytes(), 64)

    def tdpbssd(self, number: int, a: int, b: int) -> None:
        self.multiplied += 1
        sums = self.tile(number).view(np.int32)
        factors = [self.tile(i).view(np.int8).astype(np.int64).reshape(16, 16, 4) for i in (a, b)]
        sums[:] = (sums + np.einsum("mkj,knj->mn", *factors)).astype(np.int32)

    def tdpbf16ps(self, number: int, a: int, b: int) -> None:
        self.multiplied += 1
        sums = self.tile(number).view(np.float32)
        factors = [from_storage(self.tile(i).view(np.uint16), "bfloat16").reshape(16, 16, 2) for i in (a, b)]
        exact = sums.astype(np.float64) + np.einsum("mkj,knj->mn", *(x.astype(np.float64) for x in factors))
        sums[:] = exact
        if (sums != exact).any():
            raise ValueError("a sum was rounded")


NUMBER, PLACE, STRIDE = ctypes.c_uint8, ctypes.c_void_p, ctypes.c_int64
OPERANDS: dict[str, list[Any]] = {
    "ldtilecfg": [PLACE],
    "tilerelease": [],
    "tileloadd64": [NUMBER, PLACE, STRIDE],
    "tilestored64": [NUMBER, PLACE, STRIDE],
    "tdpbssd": [NUMBER] * 3,
    "tdpbf16ps": [NUMBER] * 3,
}
MACHINES: list[Machine] = []


def instruction(name: str) -> Callable[..., None]:
    """Return the function that compiled code calls instead of an instruction, on the newest emulated machine."""

    def execute(*operands: int) -> None:
        try:
            getattr(MACHINES[-1], name)(*operands)
        except (KeyError, ValueError) as fault:  # an exception in a callback would be lost
            MACHINES[-1].faults.append(f"{name}: {fault!r}")

    return execute


CALLED = {name: ctypes.CFUNCTYPE(None, *kinds)(instruction(name)) for name, kinds in OPERANDS.items()}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Emulated machine for one test, with few steps per round; it must end without faults or configured tiles."""
    for name, function in CALLED.items():
        llvm.add_symbol(EMULATED + name, ctypes.cast(function, ctypes.c_void_p).value)
    monkeypatch.setattr(amx, "INTRINSICS", EMULATED)
    monkeypatch.setattr(amx, "features", lambda: AMX)
    monkeypatch.setattr(cpu_dots, "refusal", lambda: None)
    monkeypatch.setattr(cpu_tiles, "run_rounds", compiled(cpu_tiles.run_rounds.py_func))
    monkeypatch.setattr(cpu_tiles, "run_on_all", parallel(cpu_tiles.run_on_all.py_func))
    few = {dtype: replace(numbers, steps=5, rounds=3) for dtype, numbers in cpu_tiles.NUMBERS.items()}
    monkeypatch.setattr(cpu_tiles, "NUMBERS", few)
    MACHINES.append(Machine())
    yield MACHINES[-1]
    assert not MACHINES[-1].faults
    assert not MACHINES[-1].tiles


def ceiling(dtype: str, cores: str = "one") -> Task:
    task = peak_arith(Point("peak-arith", "cpu", {"dtype": dtype, "cores": cores}, seed=3))
    assert isinstance(task, Task)
    return task


@pytest.mark.parametrize("cores", ["one", pytest.param("all", marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_ceiling_is_exact_and_counts_each_instruction(dtype: str, cores: str, machine: Machine) -> None:
    task = ceiling(dtype, cores)
    for _ in range(3):
        task.run()
    assert task.work.flops == machine.multiplied / 3 * 2 * 16 * 16 * {"int8": 64, "bfloat16": 32}[dtype]
    assert machine.configured % 3 == 0
    assert task.verify().passed


@pytest.mark.parametrize("wrong", ["one step too few", "a round left out", "one sum"])
def test_work_left_out_fails_the_verification(wrong: str, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = cpu_tiles.run_rounds

    def dishonest(sums: Any, factors: Any, steps: int, stride: int) -> None:
        honest(
            sums[stride if wrong == "a round left out" else 0 :], factors, steps - (wrong == "one step too few"), stride
        )
        sums[stride // 2] += wrong == "one sum"

    monkeypatch.setattr(cpu_tiles, "run_rounds", dishonest)
    assert not ceiling("int8").verify().passed


def test_the_emulation_refuses_tiles_that_a_thread_has_not_configured() -> None:
    MACHINES.append(Machine())
    instruction("tdpbssd")(0, 4, 6)
    assert len(MACHINES[-1].faults) == 1


@given(dot=st.sampled_from(INSTRUCTIONS), seed=st.integers(0, 2**32 - 1))
def test_an_interleaved_factor_gives_the_product_of_the_matrices(dot: TileDot, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-128, 128, shape) for shape in ((16, dot.depth), (dot.depth, 16)))
    machine = Machine({threading.get_ident(): np.zeros((8, 16, 64), np.uint8)})
    machine.tile(1)[:], machine.tile(2)[:] = to_bytes(a, dot.dtype), to_bytes(interleaved(b, dot.group), dot.dtype)
    getattr(machine, dot.name)(0, 1, 2)
    found = machine.tile(0).view(np.int32 if dot.dtype == "int8" else np.float32)
    np.testing.assert_array_equal(found, a @ b)


def test_no_sum_of_the_ceiling_is_ever_rounded() -> None:
    dot, numbers = find_tile_dot("bfloat16", AMX), cpu_tiles.NUMBERS["bfloat16"]
    assert dot is not None
    assert numbers.largest_start + numbers.steps * dot.depth * numbers.largest_factor**2 <= 1 << 24


def test_the_configuration_is_of_eight_tiles_of_sixteen_rows_of_64_bytes() -> None:
    expected = bytes([1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[16] * 8, *[0] * 8])
    assert tile_configuration().tobytes() == expected


@pytest.mark.parametrize(
    ("dtype", "has", "expected"),
    [
        ("int8", AMX | VECTORS, "tdpbssd"),
        ("bfloat16", AMX | VECTORS, "tdpbf16ps"),
        ("int8", {"amx-tile", "amx-bf16"}, None),
        ("bfloat16", {"amx-int8", "amx-bf16"}, None),
        ("float16", AMX, None),
        ("int8", VECTORS, None),
    ],
)
def test_the_tile_instruction_is_selected_by_cpu_features(dtype: str, has: Any, expected: str | None) -> None:
    dot = find_tile_dot(dtype, has)
    assert (dot.name if dot else None) == expected


@pytest.mark.parametrize(
    ("has", "refused", "instruction"),
    [(AMX, None, "tdpbssd"), (AMX, "Linux refuses", "vpdpbusd"), (frozenset(), None, "vpdpbusd")],
)
def test_the_record_names_the_instruction_and_why_tiles_were_not_used(
    has: frozenset[str], refused: str | None, instruction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amx, "features", lambda: has)
    monkeypatch.setattr("accelbench.kernels.lib.cpu.dot_instructions.features", lambda: VECTORS)
    monkeypatch.setattr(cpu_dots, "refusal", lambda: refused)
    task = ceiling("int8")
    assert task.metrics is not None
    metrics = task.metrics(1.0)
    assert metrics[f"arithmetic of one {instruction}"].value == {"tdpbssd": 32_768, "vpdpbusd": 128}[instruction]
    assert [name for name in metrics if "tiles" in name] == ["tiles (not used, because Linux refuses)"] * bool(refused)


def test_a_cpu_with_neither_tiles_nor_vectors_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amx, "features", lambda: AMX)
    monkeypatch.setattr("accelbench.kernels.lib.cpu.dot_instructions.features", lambda: frozenset())
    monkeypatch.setattr(cpu_dots, "refusal", lambda: "Linux refuses")
    with pytest.raises(Skip, match="Linux refuses"):
        ceiling("int8")


@pytest.mark.needs("linux", "x86-64", "no-amx")
def test_linux_denies_tiles_on_a_cpu_without_amx() -> None:
    assert re.search("AMX.*: .+", str(refusal()))


def test_tiles_are_not_requested_on_other_architectures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "x86-64 Linux only" in str(refusal())


COMPILE = """
from numba import types
from accelbench.kernels.peak_arith import cpu_tiles
from tests.kernels.cross import compile_kernel, pretend
pretend("x86_64-unknown-linux-gnu", 0)
flat = lambda kind: types.Array(kind, 1, "C")
for kind in (types.int32, types.float32):
    found = compile_kernel(cpu_tiles.run_rounds, (flat(kind), flat(types.uint8), types.intp, types.intp))
    print(found.library.get_asm_str())
    print("the symbol was", found.fndesc.llvm_func_name)
"""


def test_the_loops_for_sapphire_rapids_are_of_instructions_on_tiles_alone() -> None:
    cpu = {"NUMBA_CPU_NAME": "sapphirerapids", "NUMBA_CPU_FEATURES": ",".join(f"+{name}" for name in AMX | VECTORS)}
    made = subprocess.run([sys.executable, "-c", COMPILE], env=os.environ | cpu, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    parts = re.findall(r"(.*?)the symbol was (\S+)\n", made.stdout, re.DOTALL)
    for (code, symbol), dot in zip(parts, INSTRUCTIONS, strict=True):
        (body,) = re.findall(rf'^"?{re.escape(symbol)}"?:\n(.*?)^\.Lfunc_end', code, re.MULTILINE | re.DOTALL)
        on_tiles = re.findall(r"^\t(\w*tile\w*)", body, re.MULTILINE)
        assert (on_tiles[0], on_tiles[-1]) == ("ldtilecfg", "tilerelease")
        assert sorted(on_tiles[1:-1]) == ["tileloadd"] * 8 + ["tilestored"] * 4
        step = [f"{dot.name}\t%tmm{6 + i % 2}, %tmm{4 + i // 2}, %tmm{i}" for i in range(4)]
        multiplied = 0
        for loop in re.findall(r"^(\.LBB\S+):.*\n((?:\t.*\n)*?)\tj\w+\t\1$", body, re.MULTILINE):
            lines = [line.strip() for line in loop[1].splitlines() if not line.startswith("\t.")]
            steps = sum(line.startswith(dot.name) for line in lines) // len(step)
            assert lines[: 4 * steps] == step * steps
            assert len(lines) <= 4 * steps + 2  # counts and compares
            multiplied += steps
        assert multiplied >= 1
        assert multiplied * len(step) == len(re.findall(rf"^\t{dot.name}", body, re.MULTILINE))
