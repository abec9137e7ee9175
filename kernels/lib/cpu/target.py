"""The CPU that Numba compiles for, and the vector registers that the kernels may count on.

One function decides it for every kernel: `this_cpu`. It asks LLVM for the architecture, Numba's settings (else LLVM)
for the extensions, and the operating system for the width of SVE, which is each CPU's own choice.

SVE is used at the CPU's own width, by vectors of a fixed length: LLVM writes them as instructions on `z` registers
under a predicate, once it is told the least width of these registers. The code is right on each CPU whose registers are
at least as wide. Left on the table: one code for all widths, the predicate for the elements that fill no whole vector,
and the non-temporal stores of NEON: LLVM makes them of pairs of registers only, so that ours are ordinary stores there.

No ARM CPU has run these kernels yet. What is known comes from `tests/kernels/test_arm.py` and `test_arm_emulated.py`:
they compile, their loops hold the instructions that they should, and under QEMU's emulation some of them answer right.
Nothing is known of their speed.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm
from numba import config

ARM = "aarch64", "arm64"
"""How the triples of 64-bit ARM begin, on Linux and on macOS."""
NARROWEST_SVE = 16
GET_SVE_WIDTH, WIDTH_BITS = 51, 0xFFFF
"""`PR_SVE_GET_VL` and `PR_SVE_VL_LEN_MASK` of Linux: the bytes of a vector are in the answer's lower half."""


@dataclass(frozen=True)
class Target:
    """An architecture, its extensions by LLVM's names, and the bytes of an SVE register, 0 without SVE."""

    triple: str
    features: frozenset[str]
    sve_bytes: int = 0

    @property
    def is_arm(self) -> bool:
        """Return whether this is 64-bit ARM."""
        return self.triple.startswith(ARM)

    @property
    def vector_bytes(self) -> int:
        """Return the bytes of one vector register: never more than the CPU has, nor than it was asked to use."""
        if "avx512f" in self.features:
            return 32 if "prefer-256-bit" in self.features and "avx512vl" in self.features else 64
        if "avx" in self.features:
            return 32
        return max(self.sve_bytes, 16)  # SSE2 of every x86-64, NEON of every 64-bit ARM

    @property
    def vector_registers(self) -> int:
        """Return how many vector registers there are to keep sums in."""
        return 32 if "avx512f" in self.features or self.triple.startswith((*ARM, "powerpc64")) else 16


def named(features: str) -> frozenset[str]:
    """Return the extensions that are switched on in a list as NUMBA_CPU_FEATURES has it: `+avx,-avx2`."""
    names = (name.strip() for name in features.split(","))
    return frozenset(name.removeprefix("+") for name in names if name and not name.startswith("-"))


def sve_bytes() -> int:
    """Return the bytes of an SVE register of this thread; 0 where Linux or the CPU has no SVE."""
    control = getattr(ctypes.CDLL(None), "prctl", None)
    answer = control(GET_SVE_WIDTH, 0, 0, 0, 0) if control is not None else -1
    return int(answer) & WIDTH_BITS if answer > 0 else 0


@cache
def this_cpu() -> Target:
    """Return what Numba compiles for: NUMBA_CPU_FEATURES if set, else all that this CPU has."""
    if config.CPU_FEATURES is not None:
        features = named(config.CPU_FEATURES)
    else:
        features = frozenset(name for name, present in llvm.get_host_cpu_features().items() if present)
    target = Target(llvm.get_process_triple(), features, sve_bytes() if "sve" in features else 0)
    if target.sve_bytes > NARROWEST_SVE:
        llvm.set_option("accelbench", f"-aarch64-sve-vector-bits-min={8 * target.sve_bytes}")
    return target
