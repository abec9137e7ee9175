"""Vector width of the target: at most the width of the CPU and of the user's settings."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.kernels.lib.cpu.target import Target, named, sve_bytes, this_cpu

X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
AVX512 = "avx,avx2,fma,avx512f,avx512vl"


@pytest.mark.parametrize(
    ("target", "vector_bytes", "registers"),
    [
        (Target(X86, named("sse4.2")), 16, 16),
        (Target(X86, named("avx,avx2,fma")), 32, 16),
        (Target(X86, named(AVX512)), 64, 32),
        (Target(X86, named(f"{AVX512},prefer-256-bit")), 32, 32),
        (Target(X86, named("avx,avx512f,prefer-256-bit")), 64, 32),
        (Target(ARM, named("neon")), 16, 32),
        (Target("arm64-apple-darwin23", named("neon,fullfp16")), 16, 32),
        (Target(ARM, named("neon,sve"), 16), 16, 32),
        (Target(ARM, named("neon,sve"), 32), 32, 32),
        (Target(ARM, named("neon,sve"), 64), 64, 32),
        (Target("powerpc64le-unknown-linux-gnu", named("vsx")), 16, 32),
    ],
)
def test_a_vector_is_as_wide_as_the_cpu_has_it_and_the_user_allows(target, vector_bytes, registers):
    assert target.vector_bytes == vector_bytes
    assert target.vector_registers == registers


@given(st.lists(st.tuples(st.sampled_from(["+", "-", ""]), st.text("abc512", min_size=1)), max_size=8))
def test_extensions_are_those_that_a_list_does_not_switch_off(listed):
    written = " ,".join(sign + name for sign, name in listed)
    assert named(written) == {name for sign, name in listed if sign != "-"}


def test_the_settings_of_numba_select_the_width():
    program = "from accelbench.kernels.lib.cpu.target import this_cpu; t=this_cpu(); print(t.vector_bytes, t.sve_bytes)"
    given = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+sse2,-avx512f"}
    told = subprocess.run([sys.executable, "-c", program], env=given, check=True, capture_output=True, text=True)
    assert told.stdout.split() == ["16", "0"]
    assert bool(sve_bytes()) == ("sve" in this_cpu().features)
