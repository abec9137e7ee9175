"""Settings that limit a library to fewer instruction sets or cores than the CPU has.

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
"""Levels of x86-64 instruction sets with increasing vector or matrix width, by the kernel's names."""
NAMES = {1: "SSE 4.2", 2: "AVX", 3: "AVX2", 4: "AVX-512", 5: "AMX"}
POOLS = ("openblas", "mkl", "blis")
"""Thread pools of BLAS libraries, by threadpoolctl's names."""
BLAS = "BLAS"
"""Name by which a task declares NumPy's BLAS as its library."""
ONEDNN = "oneDNN"
"""Name by which a task declares oneDNN alone as its library, without the rest of the backend that contains it."""


@dataclass(frozen=True)
class Setting:
    """An environment variable that selects the instruction set of a library."""

    variable: str
    library: str
    users: frozenset[str]
    """Users of the library: `BLAS` (of NumPy), `ONEDNN` (tasks that declare it), or names of backends."""
    levels: Mapping[str, int]
    """Level of each value, in capitals; other values are not known to limit anything."""
    most: int = 4
    """Highest level that the library uses by default."""
    pattern: str = r"(.*)"
    """Regular expression whose group 1 is the value within the variable."""


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
"""All users of these libraries."""
VARIABLES = tuple(setting.variable for setting in SETTINGS)


def limiting_settings(environment: Environment, users: Collection[str]) -> list[str]:
    """Return the settings, as text, that limit the libraries of these users (`BLAS`, `ONEDNN`, backends).

    Instruction sets are compared on x86-64 only.
    """
    return [*_instruction_sets(environment, users), *_threads(environment, users)]


def _instruction_sets(environment: Environment, users: Collection[str]) -> Iterator[str]:
    highest = max((LEVELS[name] for name in environment.cpu.isa if name in LEVELS), default=0)
    for setting in SETTINGS:
        value = environment.software.settings.get(setting.variable, "")
        found = re.search(setting.pattern, value)
        level = setting.levels.get(found[1].upper()) if found else None
        possible = min(highest, setting.most)
        if level is not None and level < possible and setting.users & set(users):
            chosen = f"{setting.variable}={value}"
            yield f"{chosen} limits {setting.library} to {NAMES[level]} (this CPU has {NAMES[possible]})"


def _threads(environment: Environment, users: Collection[str]) -> Iterator[str]:
    usable = environment.cpu.usable
    for pool in POOLS if BLAS in users else ():
        count = environment.software.threads.get(pool, "")
        if count.isdigit() and int(count) < usable:
            yield f"{pool} uses {count} thread{'s' * (count != '1')} of {usable} usable CPUs"
