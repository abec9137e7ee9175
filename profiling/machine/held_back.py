"""Settings that limit a library to less than the CPU's instruction sets or cores.

Sources: OpenBLAS `USAGE.md` and `cpuid_x86.c`, Intel oneMKL developer guide ("Instruction Set Specific Dispatching"),
oneDNN developer guide ("CPU Dispatcher Control"), PyTorch `aten/src/ATen/native/DispatchStub.cpp`, XLA `xla.proto`.
MKL_DEBUG_CPU_TYPE is not among them: MKL has not read it since 2020.1.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from accelbench.profiling.records.environment import Environment

LEVELS = {"sse4_2": 1, "avx": 2, "avx2": 3, "avx512f": 4, "amx_tile": 5}
"""The instruction sets of x86-64 that each double what one instruction does, by the kernel's names."""
NAMES = {1: "SSE 4.2", 2: "AVX", 3: "AVX2", 4: "AVX-512", 5: "AMX"}
POOLS = ("openblas", "mkl", "blis")
"""The thread pools of BLAS libraries, by the names that threadpoolctl gives them."""
BLAS = "BLAS"
"""The word by which a task says that the BLAS of NumPy does its work."""
ONEDNN = "oneDNN"
"""The word by which a task says that oneDNN does its work, and nothing else of the backend that brings it."""


@dataclass(frozen=True)
class Setting:
    """An environment variable that chooses the instruction set of a library."""

    variable: str
    library: str
    users: frozenset[str]
    """What the library works for: the BLAS of NumPy, tasks that name the library itself, or backends by their names."""
    levels: Mapping[str, int]
    """The level of each value, in capitals; another value holds nothing back, as far as is known."""
    most: int = 4
    """The highest level that the library makes use of by itself."""
    pattern: str = r"(.*)"
    """The place of the value in the variable."""


_ONEDNN = {"SSE41": 1, "AVX": 2, "AVX2": 3, "AVX2_VNNI": 3, "AVX2_VNNI_2": 3}
_ONEDNN |= {f"AVX512_CORE{more}": 4 for more in ("", "_VNNI", "_BF16", "_FP16")}
SETTINGS = (
    Setting(
        "OPENBLAS_CORETYPE",
        "OpenBLAS",
        frozenset({BLAS}),
        dict.fromkeys(("PRESCOTT", "CORE2", "PENRYN", "DUNNINGTON", "ATOM", "NEHALEM", "OPTERON", "BARCELONA"), 1)
        | dict.fromkeys(("SANDYBRIDGE", "BULLDOZER", "PILEDRIVER", "STEAMROLLER"), 2)
        | dict.fromkeys(("HASWELL", "EXCAVATOR", "ZEN"), 3),
    ),
    Setting(
        "MKL_ENABLE_INSTRUCTIONS",
        "MKL",
        frozenset({BLAS, "torch"}),
        {"SSE4_2": 1, "AVX": 2, "AVX2": 3, "AVX2_E1": 3},
    ),
    Setting("ONEDNN_MAX_CPU_ISA", "oneDNN", frozenset({ONEDNN, "tensorflow", "torch"}), _ONEDNN, most=5),
    Setting("DNNL_MAX_CPU_ISA", "oneDNN", frozenset({ONEDNN, "tensorflow", "torch"}), _ONEDNN, most=5),
    Setting("ATEN_CPU_CAPABILITY", "PyTorch", frozenset({"torch"}), {"DEFAULT": 1, "AVX2": 3}),
    Setting(
        "XLA_FLAGS",
        "XLA",
        frozenset({"jax"}),
        {"SSE4_2": 1, "AVX": 2, "AVX2": 3},
        pattern=r"--xla_cpu_max_isa=(\S+)",
    ),
)
USERS = frozenset().union(*(setting.users for setting in SETTINGS))
"""Everything that these libraries work for."""
VARIABLES = tuple(setting.variable for setting in SETTINGS)


def held_back(environment: Environment, users: Collection[str]) -> list[str]:
    """Return in words what keeps the libraries of these users (`BLAS`, `ONEDNN`, backends) below what the CPU can.

    Empty where nothing does, or the CPU's instruction sets are not of x86-64.
    """
    return [*_instruction_sets(environment, users), *_threads(environment, users)]


def _instruction_sets(environment: Environment, users: Collection[str]) -> Iterator[str]:
    there = max((LEVELS[name] for name in environment.cpu.isa if name in LEVELS), default=0)
    for setting in SETTINGS:
        value = environment.software.settings.get(setting.variable, "")
        found = re.search(setting.pattern, value)
        level = setting.levels.get(found[1].upper()) if found else None
        can = min(there, setting.most)
        if level is not None and level < can and setting.users & set(users):
            chosen = f"{setting.variable}={value}"
            yield f"{chosen} keeps {setting.library} to {NAMES[level]}, and this CPU has {NAMES[can]}"


def _threads(environment: Environment, users: Collection[str]) -> Iterator[str]:
    usable = environment.cpu.usable
    for pool in POOLS if BLAS in users else ():
        count = environment.software.threads.get(pool, "")
        if count.isdigit() and int(count) < usable:
            yield f"{pool} has {count} thread{'s' * (count != '1')}, and this process may use {usable} CPUs"
