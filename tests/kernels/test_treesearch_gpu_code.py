"""The machine code of the GPU tree searches, without a GPU: what the docstrings state of it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("numba_cuda") is None:
    pytest.skip("numba-cuda is not installed (extra dev on Linux has it)", allow_module_level=True)

from kernels.compilation import compile_kernel, to_ptx
from kernels.device_code import NumbaKernel
from kernels.numba_cuda import cuda, uint32, void
from kernels.treesearch.device_search import BLOCKS_PER_MULTIPROCESSOR
from kernels.treesearch.flowshop import gpu_sharing as flowshop
from kernels.treesearch.gpu_pool import THREADS
from kernels.treesearch.uts import gpu_sharing as uts
from kernels.treesearch.uts.device_sha1 import HASH_INSTRUCTIONS, hash_child

SEARCHES = [*uts.device_code(), *flowshop.device_code()]
REGISTERS_OF_A_MULTIPROCESSOR = 1 << 16


@cuda.jit
def hash_words(words: Any) -> None:
    i = cuda.threadIdx.x
    a, b, c, d, e = hash_child(words[0, i], words[1, i], words[2, i], words[3, i], words[4, i], words[5, i])
    words[0, i], words[1, i], words[2, i], words[3, i], words[4, i] = a, b, c, d, e


@cuda.jit
def turn_words(words: Any) -> None:
    i = cuda.threadIdx.x
    a, b, c, d, e = words[1, i], words[2, i], words[3, i], words[4, i], words[5, i]
    words[0, i], words[1, i], words[2, i], words[3, i], words[4, i] = a, b, c, d, e


def test_a_hash_takes_as_many_instructions_as_stated() -> None:
    lengths = [
        len(compile_kernel(NumbaKernel(function.py_func.__name__, function, void(uint32[:, ::1])), (9, 0)).instructions)
        for function in (hash_words, turn_words)
    ]
    assert lengths[0] - lengths[1] == pytest.approx(HASH_INSTRUCTIONS, rel=0.03)


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: search.name)
def test_as_many_blocks_as_are_launched_fit_a_multiprocessor(search: NumbaKernel) -> None:
    code = compile_kernel(search, (8, 0))  # which takes the most registers
    assert code.registers * THREADS * BLOCKS_PER_MULTIPROCESSOR <= REGISTERS_OF_A_MULTIPROCESSOR


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: search.name)
def test_shelves_are_read_and_written_between_fences(search: NumbaKernel) -> None:
    ptx = to_ptx(search, (9, 0))
    assert ptx.count("membar.gl") + ptx.count("fence.") >= 4  # shelf taken, said vacant, found vacant, said ready
    assert "ld.global.nc" not in ptx  # what other blocks write is never read through the read-only path
