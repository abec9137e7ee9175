"""Undefined registers: results computed from them are undefined, and using one outside of registers is an error."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx.machine import Device, PtxError

pytestmark = pytest.mark.needs("g++")

HEADER = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .b32 %r<9>, %undefined;
.reg .b64 %rd<9>;
.reg .f64 %sum<4>;
.reg .pred %p<9>, %unknown;
.shared .align 16 .b8 memory[512];
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd2, %rd1, %rd2;
mov.f64 %sum0, 0d0000000000000000;
setp.lt.u32 %p1, %r1, 16;
@%p1 mov.u32 %undefined, 7;
setp.lt.u32 %unknown, %undefined, 9;
"""
"""A kernel whose registers %undefined and %unknown are defined in lanes 0 to 15, where they are 7 and true."""


def execute(*lines: str) -> list[int]:
    device = Device()
    out = device.buffer(np.zeros(32, np.int32))
    device.load(HEADER + "\n".join(lines) + "\nret;\n}\n").launch(1, 32, out)
    return list(out.array)


STORE = "st.global.u32 [%rd2], %r2;"
COMPUTED = {
    "arithmetic": "add.s32 %r2, %undefined, 1;",
    "a division, whose divisor may be zero": "div.s32 %r2, 70, %undefined;",
    "several instructions": "mov.u32 %r3, %undefined; shl.b32 %r3, %r3, 2; not.b32 %r2, %r3;",
    "a packed pair": "mov.b64 %rd3, {%r1, %undefined}; mov.b64 {_, %r2}, %rd3;",
    "the chosen operand": "selp.b32 %r2, 5, %undefined, %p1;",
    "the predicate of a choice": "selp.b32 %r2, 5, 6, %unknown;",
    "a comparison": "setp.eq.s32 %p2, %undefined, 3; selp.b32 %r2, 5, 6, %p2;",
    "the opposite of a comparison": "setp.eq.s32 %p2|%p3, %undefined, 3; selp.b32 %r2, 5, 6, %p3;",
    "an undecided condition": "and.pred %p2, %unknown, %unknown; selp.b32 %r2, 5, 6, %p2;",
    "a value that was defined before": "mov.u32 %r2, 5; mov.u32 %r2, %undefined;",
}


@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_computed_from_an_undefined_register_is_undefined(name: str) -> None:
    assert execute(COMPUTED[name]) == [0] * 32
    stored_where_defined = execute(COMPUTED[name], f"@%p1 {STORE}")
    assert 0 not in stored_where_defined[:16]
    assert stored_where_defined[16:] == [0] * 16
    with pytest.raises(PtxError) as raised:
        execute(COMPUTED[name], STORE)
    assert (raised.value.kind, raised.value.thread) == ("uninitialised", 16)
    assert raised.value.line == HEADER.count("\n") + 2


DEFINED = {
    "the other operand is chosen": ("selp.b32 %r2, %undefined, 5, %p1;", [7] * 16 + [5] * 16),
    "an instruction that its guard suppresses": ("mov.u32 %r2, 3; @%p1 mov.u32 %r2, %undefined;", [7] * 16 + [3] * 16),
    "a false condition": ("and.pred %p2, %p1, %unknown; selp.b32 %r2, 1, 2, %p2;", [1] * 16 + [2] * 16),
    "a true condition": (
        "setp.ge.u32 %p3, %r1, 16; or.pred %p2, %unknown, %p3; selp.b32 %r2, 1, 2, %p2;",
        [1] * 32,
    ),
    "a comparison that a false condition suppresses": (
        "setp.eq.and.u32 %p2, %undefined, 7, %p1; selp.b32 %r2, 1, 2, %p2;",
        [1] * 16 + [2] * 16,
    ),
    "a value that is overwritten": ("add.u32 %r2, %undefined, 1; mov.u32 %r2, 4;", [4] * 32),
}


@pytest.mark.parametrize("name", DEFINED)
def test_results_that_no_undefined_register_decides(name: str) -> None:
    line, expected = DEFINED[name]
    assert execute(line, STORE) == expected


USES = {
    "an address": "cvt.u64.u32 %rd3, %undefined; add.s64 %rd3, %rd1, %rd3; ld.global.u32 %r2, [%rd3+1];",
    "an element of a stored vector": "@%p1 bra out; st.shared.v2.u32 [memory], {%r1, %undefined}; out:",
    "the operand of an atomic": "red.global.add.u32 [%rd1], %undefined;",
    "a branch": "@%unknown bra there; there:",
    "a guard": "@%unknown mov.u32 %r2, 1;",
    "a shuffle": "shfl.sync.idx.b32 %r2, %undefined, 3, 31, -1;",
    "a vote": "vote.sync.ballot.b32 %r2, %unknown, -1;",
    "the mask of a shuffle": "or.b32 %r3, %undefined, -1; shfl.sync.idx.b32 %r2, %r1, 3, 31, %r3;",
    "the number of a barrier": "@%p1 bra out; bar.sync %undefined; out:",
    "a matrix": (
        "cvt.f64.u32 %sum1, %undefined;"
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%sum2, %sum3}, {%sum1}, {%sum0}, {%sum0, %sum0};"
    ),
}


@pytest.mark.parametrize("name", USES)
def test_an_undefined_register_is_not_used_outside_of_registers(name: str) -> None:
    with pytest.raises(PtxError) as raised:
        execute(USES[name])
    assert raised.value.kind == "uninitialised"
    assert raised.value.thread >= 16
