"""Results of kernels compiled for ARM, under QEMU with NEON and with SVE of three widths; the speed is not tested."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from numba import typeof

from accelbench.kernels.lib import formats
from accelbench.kernels.lib.cpu.dot_microkernel import dot_columns
from accelbench.kernels.lib.cpu.target import Target, named
from accelbench.kernels.lib.cpu.threads import compiled as compiled_here
from accelbench.kernels.matmul import cpu_dots
from tests.kernels.emulated import call
from tests.kernels.test_arm import TRIPLE

pytestmark = [pytest.mark.slow, pytest.mark.needs("qemu-arm")]


@dataclass(frozen=True)
class Emulated:
    """CPU: LLVM's name, extensions, bytes of an SVE register, and QEMU's name."""

    name: str
    features: str
    sve_bytes: int
    qemu: str

    @property
    def target(self) -> Target:
        return Target(TRIPLE, named(self.features), self.sve_bytes)


CPUS = (
    Emulated("neoverse-n1", "+neon", 0, "neoverse-n1"),
    Emulated("neoverse-v2", "+neon,+sve,+sve2", 16, "max,sve-max-vq=1"),
    Emulated("neoverse-v1", "+neon,+sve", 32, "max,sve-max-vq=2"),
    Emulated("a64fx", "+neon,+sve", 64, "a64fx"),
)
CAPTURE = """
import pickle, sys
import numpy as np
from accelbench.kernels.treesearch.nqueens import cpu_prefix, cpu_tuned, nqueens
from accelbench.profiling.records.point import Point
calls = []
for impl, module in (("prefix", cpu_prefix), ("tuned", cpu_tuned)):
    def captured(*arguments, module=module, search=module.search_tasks):
        given = [np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments]
        search(*arguments)
        calls.append((module.__name__, "search_tasks", given, [a.copy() for a in arguments[-2:]]))
    module.search_tasks = captured
    nqueens(Point("nqueens", "cpu", {"impl": impl, "cores": "one", "queens": 8})).run()
pickle.dump(calls, open(sys.argv[1], "wb"))
"""
"""Program that prints the arguments of searches of a small board with one lane, and the nodes and solutions."""


def vector_cases(cpu):
    """Return calls of the kernels of `test_simd`, each with the expected array and its index among the arguments."""
    rng, vector_bytes = np.random.default_rng(22), cpu.target.vector_bytes
    cases = []
    for dtype in (np.dtype("float32"), np.dtype("float64")):
        width, chains = vector_bytes // dtype.itemsize, cpu.target.vector_registers - 4
        sums, factors = (rng.integers(-11, 12, n).astype(dtype) for n in (chains * width, 2 * width))
        added = sums + 37 * np.tile(factors[:width] * factors[width:], chains)
        cases.append(("run_chains", [sums, factors, 37], added, 0))
        a, b, c = (rng.integers(-9, 9, 256).astype(dtype) for _ in range(3))
        out = np.full(256, np.nan, dtype)
        cases.append(("run_vector_fma", [a, b, c, out, dtype.type(0.75)], 0.75 * (a * b + c) + c, 3))
    return cases


def compiled(cpu, calls, folder):
    """Compile the kernels of the calls into a directory; return their symbols in the same order."""
    wanted = [(module, name, tuple(map(typeof, given))) for module, name, given in calls]
    (folder / "wanted").write_bytes(pickle.dumps(wanted))
    command = [sys.executable, "-m", "tests.kernels.cross", "object", str(folder), TRIPLE]
    there = os.environ | {"NUMBA_CPU_NAME": cpu.name, "NUMBA_CPU_FEATURES": cpu.features}
    subprocess.run([*command, str(cpu.sve_bytes), str(folder / "wanted")], env=there, check=True)
    return [symbol for *_, symbol in json.loads((folder / "symbols.json").read_text())]


@pytest.fixture(scope="module")
def searches(tmp_path_factory):
    file = tmp_path_factory.mktemp("searches") / "calls"
    one_lane = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    subprocess.run([sys.executable, "-c", CAPTURE, str(file)], env=one_lane, check=True)
    return pickle.loads(file.read_bytes())


@pytest.mark.parametrize("cpu", CPUS, ids=lambda cpu: f"{cpu.name}-{8 * cpu.sve_bytes}")
def test_kernels_are_correct_on_an_emulated_cpu(cpu, searches, tmp_path):
    calls = [("tests.kernels.test_simd", name, given, {place: out}) for name, given, out, place in vector_cases(cpu)]
    calls += [(module, name, given, {-2: nodes, -1: solutions}) for module, name, given, (nodes, solutions) in searches]
    symbols = compiled(cpu, [(module, name, given) for module, name, given, _ in calls], tmp_path)
    for number, (module, name, given, expected) in enumerate(calls):
        found = call(tmp_path / f"{number}.o", symbols[number], tuple(given), cpu.qemu, tmp_path)
        for place, right in expected.items():
            np.testing.assert_array_equal(found[place], right, err_msg=f"{module}.{name} on {cpu.name}")


@compiled_here
def multiply_dots(a, b, c, m, n, k, kc, packed_a, packed_b, offsets, edges, held, held_rows, scratch):
    """Multiply like `cpu_dots.multiply_all`, on one thread and with all rows in one block."""
    nr, group = dot_columns(held), 4 // a.itemsize
    for k0 in range(0, k, kc):
        deep = min(kc, k - k0)
        words = (deep + group - 1) // group
        for j in range(0, n, nr):
            cpu_dots.pack_panel(b, packed_b, offsets, edges, n, k0 * n + j, deep, min(nr, n - j), j)
        cpu_dots.pack_block(a, k0, k, m, deep, packed_a, held, 0)
        cpu_dots.multiply_block(
            packed_a, packed_b, 0, offsets, 0, held, 0, held_rows, c, scratch, n, 0, m, n, words, k0 == 0, k0 + kc >= k
        )


@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_narrow_numbers_are_multiplied_exactly_on_an_emulated_cpu(dtype, tmp_path):
    """This includes complete, half and partial tiles, and one and several parts of k."""
    cpu, sums = Emulated("neoverse-n2", "+neon,+dotprod,+bf16", 0, "max"), "int32" if dtype == "int8" else "float32"
    m, n, k, few = 41, 29, 95, 9 if dtype == "bfloat16" else 128
    rng, numbers = np.random.default_rng(23), formats.FORMATS[dtype]
    a, b = (rng.integers(-few, few, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    result = formats.FORMATS[numbers.result].storage
    right = formats.to_storage(a @ b, dtype) if dtype == "bfloat16" else (a @ b).astype(result)
    factors = [formats.to_storage(x, dtype).reshape(-1).view(f"u{numbers.itemsize}") for x in (a, b)]
    room = [np.empty(10_000, kind) for kind in ("uint32", "uint32", sums, factors[0].dtype, sums)]

    def given(kc):
        return [*factors, np.empty(m * n, result), m, n, k, kc, *room, 2 * m, np.empty(1000, result)]

    (symbol,) = compiled(cpu, [(__name__, "multiply_dots", given(k))], tmp_path)
    for kc in (k, 16, 32):
        found = call(tmp_path / "0.o", symbol, tuple(given(kc)), cpu.qemu, tmp_path)
        np.testing.assert_array_equal(found[2].reshape(m, n), right)


def test_registers_narrower_than_compiled_for_give_wrong_results(tmp_path):
    """This shows that the emulation distinguishes the widths."""
    wide, narrow = CPUS[-1], CPUS[1]
    name, given, right, place = vector_cases(wide)[0]
    (symbol,) = compiled(wide, [("tests.kernels.test_simd", name, given)], tmp_path)
    found = call(tmp_path / "0.o", symbol, tuple(given), narrow.qemu, tmp_path)
    assert not np.array_equal(found[place], right)
