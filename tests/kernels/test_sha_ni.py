"""SHA-NI: hashes are SHA-1 in every lane, and the search uses it only on CPUs where it is faster."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

from accelbench.kernels.treesearch.uts import sha_ni
from accelbench.kernels.treesearch.uts.sha1_rounds import WORD
from accelbench.kernels.treesearch.uts.trees import STATE_WORDS

MESSAGE_WORDS = STATE_WORDS + 1
X86 = "x86_64-unknown-linux-gnu"
AVX2, AVX512 = "+avx,+avx2,+bmi,+bmi2,+fma", "+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"


@cache
def hash_lanes(lanes: int) -> Callable[[Any], Any]:
    """Return a function that hashes the columns of uint32[6, lanes] into uint32[5, lanes], compiled for this CPU."""
    module = ir.Module()
    vector = ir.VectorType(WORD, lanes)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [vector.as_pointer()] * 2), "hash_lanes")
    builder = ir.IRBuilder(function.append_basic_block())

    def row(table: Any, number: int) -> Any:
        return builder.gep(table, [ir.IntType(64)(number)])

    message = [builder.load(row(function.args[0], i), align=4) for i in range(MESSAGE_WORDS)]
    for i, word in enumerate(sha_ni.emit_sha1(builder, message)):
        builder.store(word, row(function.args[1], i), align=4)
    builder.ret_void()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    has = llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(llvm.get_host_cpu_name(), has)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
    engine.finalize_object()
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(engine.get_function_address("hash_lanes"))

    def run(messages: Any, owner: Any = engine) -> Any:  # keeps the engine, which owns the code, alive
        digests = np.zeros((STATE_WORDS, lanes), np.uint32)
        call(messages.ctypes.data, digests.ctypes.data)
        return digests

    return run


@pytest.mark.needs("sha")
@pytest.mark.parametrize("lanes", [4, 8])
@given(data=st.data())
@settings(deadline=None)
def test_every_lane_is_hashed_to_its_own_sha1(lanes: int, data: st.DataObject) -> None:
    size = MESSAGE_WORDS * lanes
    words = data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=size, max_size=size))
    messages = np.array(words, np.uint32).reshape(MESSAGE_WORDS, lanes)
    digests = hash_lanes(lanes)(messages)
    for lane in range(lanes):
        expected = hashlib.sha1(messages[:, lane].astype(">u4").tobytes()).digest()
        assert digests[:, lane].astype(">u4").tobytes() == expected


def search_code(cpu: str, extensions: str) -> str:
    """Return the assembly of the tree search as compiled by Numba for a CPU with the given name and extensions."""
    program = f"""
from tests.kernels.cross import compile_kernel, pretend
pretend({X86!r}, 0)
from numba import int64, uint32
from accelbench.kernels.treesearch.uts.cpu_sharing import search
table, flat = uint32[:, ::1], int64[::1]
print(compile_kernel(search, (table, uint32, table, flat, table, flat)).library.get_asm_str())
"""
    there = os.environ | {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": extensions}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=there, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cpu", "extensions", "nodes"),
    [
        ("znver3", f"{AVX2},+sha", 8),
        pytest.param("alderlake", f"{AVX2},+sha", 8, marks=pytest.mark.exhaustive),
        ("goldmont", "+sse4.2,+sha", 4),
        pytest.param("haswell", AVX2, 0, marks=pytest.mark.exhaustive),
        ("skylake-avx512", f"{AVX2},{AVX512}", 0),
        pytest.param("znver4", f"{AVX2},{AVX512},+sha", 0, marks=pytest.mark.exhaustive),
        ("znver4", f"{AVX2},{AVX512},+sha,+prefer-256-bit", 0),
    ],
)
def test_the_search_hashes_by_sha_ni_where_there_is_no_avx512(cpu: str, extensions: str, nodes: int) -> None:
    code = [line.split()[0] for line in search_code(cpu, extensions).splitlines() if line.strip()]
    assert code.count("sha1rnds4") == nodes * sha_ni.TURNS
    assert ("vprold" in code) == ("avx512" in extensions)
