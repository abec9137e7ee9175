"""The CPU that Numba compiles for: architecture, extensions and vector registers.

`this_cpu` determines it for all kernels: the architecture from LLVM, the extensions from Numba's settings (else LLVM),
and the width of SVE, which differs between CPUs, from the operating system.

SVE is used at the CPU's own width, by vectors of a fixed length: given the minimum width of the `z` registers, LLVM
compiles them to predicated SVE instructions. The code is correct on every CPU whose registers are at least as wide. Not
used: code for any width, predicates for partial vectors, and non-temporal stores of NEON, which LLVM emits for pairs of
registers only, so that single ones become ordinary stores.

No ARM CPU has run these kernels yet. `tests/kernels/test_arm.py` and `test_arm_emulated.py` show that they compile,
that their loops contain the expected instructions, and that some give correct results under QEMU. Their speed is
unknown.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm
from numba import config

ARM = "aarch64", "arm64"
"""Prefixes of the triples of 64-bit ARM, on Linux and on macOS."""
NARROWEST_SVE = 16
GET_SVE_WIDTH, WIDTH_BITS = 51, 0xFFFF
"""`PR_SVE_GET_VL` and `PR_SVE_VL_LEN_MASK` of Linux: the bytes of a vector are in the lower half of the result."""


@dataclass(frozen=True)
class Target:
    """Architecture, extensions by LLVM's names, and bytes of an SVE register (0 without SVE)."""

    triple: str
    features: frozenset[str]
    sve_bytes: int = 0

    @property
    def is_arm(self) -> bool:
        """Whether the architecture is 64-bit ARM."""
        return self.triple.startswith(ARM)

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector register: the width of the CPU, or less if the settings limit it."""
        if "avx512f" in self.features:
            return 32 if "prefer-256-bit" in self.features and "avx512vl" in self.features else 64
        if "avx" in self.features:
            return 32
        return max(self.sve_bytes, 16)  # SSE2 of every x86-64, NEON of every 64-bit ARM

    @property
    def vector_registers(self) -> int:
        """Number of vector registers."""
        return 32 if "avx512f" in self.features or self.triple.startswith((*ARM, "powerpc64")) else 16


def named(features: str) -> frozenset[str]:
    """Return the enabled extensions of a list in the form of NUMBA_CPU_FEATURES: `+avx,-avx2`."""
    names = (name.strip() for name in features.split(","))
    return frozenset(name.removeprefix("+") for name in names if name and not name.startswith("-"))


def sve_bytes() -> int:
    """Return the bytes of an SVE register of this thread; 0 without SVE in Linux or the CPU."""
    control = getattr(ctypes.CDLL(None), "prctl", None)
    answer = control(GET_SVE_WIDTH, 0, 0, 0, 0) if control is not None else -1
    return int(answer) & WIDTH_BITS if answer > 0 else 0


@cache
def this_cpu() -> Target:
    """Return the target that Numba compiles for: NUMBA_CPU_FEATURES if set, else all extensions of this CPU."""
    if config.CPU_FEATURES is not None:
        features = named(config.CPU_FEATURES)
    else:
        features = frozenset(name for name, present in llvm.get_host_cpu_features().items() if present)
    target = Target(llvm.get_process_triple(), features, sve_bytes() if "sve" in features else 0)
    if target.sve_bytes > NARROWEST_SVE:
        llvm.set_option("accelbench", f"-aarch64-sve-vector-bits-min={8 * target.sve_bytes}")
    return target
