"""Counts of small PTX kernels, known from the rules of the hardware: issue slots, wavefronts, sectors, lanes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx.machine import Device, Launched, Tally

pytestmark = pytest.mark.needs("g++")

KERNEL = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data)
{{
.reg .b32 %r<9>;
.reg .b64 %rd<3>;
.reg .pred %p<3>;
.shared .align 16 .b8 s[8192];
mov.u32 %r1, %tid.x;
mov.u32 %r2, s;
ld.param.u64 %rd1, [data];
{body}
ret;
}}
"""


def execute(*body: str, threads: int = 32, floats: int = 4096) -> Launched:
    """Execute the instructions once by one block, which has the thread's index in %r1, an array in %rd1."""
    device = Device(counts=True)
    data = device.buffer(np.zeros(floats, np.float32))
    device.load(KERNEL.format(body="\n".join(body))).launch(1, threads, data)
    (launched,) = device.launched
    return launched


def at(launched: Launched, part: str) -> Tally:
    """Return the tally of the only line that contains the text."""
    (line,) = [i for i, text in enumerate(launched.text.splitlines(), 1) if part in text]
    return launched.counts.tallies.get(line, Tally())


def shared_store(stride: int, type: str, values: str, threads: int = 32) -> Tally:
    """Return the tally of a store by each thread, `stride` bytes apart."""
    body = f"mad.lo.s32 %r3, %r1, {stride}, %r2;", f"st.shared.{type} [%r3], {values};"
    return at(execute(*body, threads=threads), "st.shared")


@pytest.mark.parametrize(
    ("stride", "wavefronts"), [(0, 1), (4, 1), (8, 2), (12, 1), (16, 4), (64, 16), (128, 32), (132, 1)]
)
def test_lanes_in_one_bank_take_turns_unless_they_access_one_word(stride: int, wavefronts: int) -> None:
    found = shared_store(stride, "u32", "%r2")
    assert (found.wavefronts, found.conflicts) == (wavefronts, wavefronts - 1)


def test_bytes_of_one_word_take_one_wavefront() -> None:
    assert shared_store(1, "u8", "%r2").wavefronts == 1


@pytest.mark.parametrize(
    ("stride", "type", "values", "wavefronts", "conflicts"),
    [
        (8, "v2.u32", "{%r2, %r2}", 2, 0),
        (16, "v2.u32", "{%r2, %r2}", 4, 2),
        (16, "v4.u32", "{%r2, %r2, %r2, %r2}", 4, 0),
        (32, "v4.u32", "{%r2, %r2, %r2, %r2}", 8, 4),
        (128, "v4.u32", "{%r2, %r2, %r2, %r2}", 32, 28),
        (0, "v4.u32", "{%r2, %r2, %r2, %r2}", 4, 0),
    ],
)
def test_wide_accesses_are_split_into_half_and_quarter_warps(
    stride: int, type: str, values: str, wavefronts: int, conflicts: int
) -> None:
    found = shared_store(stride, type, values)
    assert (found.wavefronts, found.conflicts) == (wavefronts, conflicts)


@pytest.mark.parametrize(
    ("stride", "lanes", "wavefronts", "conflicts"),
    [(16, 32, 4, 0), (16, 8, 2, 0), (16, 1, 2, 0), (32, 32, 8, 4), (32, 8, 4, 0), (128, 8, 16, 12)],
)
def test_loads_of_16_bytes_take_a_wavefront_for_every_128_different_bytes_of_a_half_warp(
    stride: int, lanes: int, wavefronts: int, conflicts: int
) -> None:
    """Each `lanes` neighbours read the same addresses as the others."""
    body = (
        f"and.b32 %r3, %r1, {lanes - 1};",
        f"mad.lo.s32 %r3, %r3, {stride}, %r2;",
        "st.shared.v4.u32 [%r3], {%r2, %r2, %r2, %r2};",
        "bar.warp.sync 0xffffffff;",
        "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3];",
    )
    found = at(execute(*body), "ld.shared")
    assert (found.wavefronts, found.conflicts) == (wavefronts, conflicts)


def test_a_quarter_warp_of_which_no_lane_is_active_takes_no_wavefront() -> None:
    assert shared_store(16, "v4.u32", "{%r2, %r2, %r2, %r2}", threads=9).wavefronts == 2


def test_atomics_on_one_word_take_turns() -> None:
    launched = execute("st.shared.u32 [%r2], 0;", "bar.sync 0;", "red.shared.add.u32 [%r2], 1;", threads=8)
    assert (at(launched, "st.shared").wavefronts, at(launched, "red.shared").wavefronts) == (1, 8)


def test_rows_of_ldmatrix_are_quarter_warps() -> None:
    launched = execute(
        "mad.lo.s32 %r3, %r1, 16, %r2;",
        "st.shared.v4.u32 [%r3], {%r1, %r1, %r1, %r1};",
        "bar.warp.sync 0xffffffff;",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r4, %r5}, [%r3];",
    )
    assert at(launched, "ldmatrix").wavefronts == 2


def load(stride: int, type: str = "f32", first: int = 0) -> Tally:
    """Return the tally of a load of global memory by each thread, `stride` bytes apart."""
    result = "{%r4, %r5, %r6, %r7}" if "v4" in type else "%r4"
    body = (
        f"mul.wide.s32 %rd2, %r1, {stride};",
        "add.s64 %rd2, %rd2, %rd1;",
        f"ld.global.{type} {result}, [%rd2+{first}];",
    )
    return at(execute(*body), "ld.global")


@pytest.mark.parametrize(
    ("stride", "type", "first", "sectors", "used_bytes"),
    [
        (4, "u32", 0, 4, 128),
        (4, "u32", 4, 5, 128),
        (8, "u32", 0, 8, 128),
        (32, "u32", 0, 32, 128),
        (128, "u32", 0, 32, 128),
        (0, "u32", 0, 1, 4),
        (1, "u8", 0, 1, 32),
        (16, "v4.u32", 0, 16, 512),
    ],
)
def test_sectors_of_a_request_are_counted_once(
    stride: int, type: str, first: int, sectors: int, used_bytes: int
) -> None:
    found = load(stride, type, first)
    assert (found.requests, found.sectors, found.used_bytes) == (1, sectors, used_bytes)


def test_bytes_that_several_warps_access_are_touched_once() -> None:
    launched = execute("ld.global.u32 %r4, [%rd1];", "ld.global.u32 %r5, [%rd1+64];", threads=128)
    assert launched.counts.touched_bytes == 64
    assert Tally.total(launched.counts.tallies.values()).sectors == 8


def test_generic_addresses_are_counted_in_their_space() -> None:
    launched = execute("cvta.shared.u64 %rd2, s;", "st.u32 [%rd2], 7;", "ld.u32 %r4, [%rd1];")
    stored, loaded = at(launched, "st.u32"), at(launched, "ld.u32")
    assert (stored.wavefronts, stored.requests) == (1, 0)
    assert (loaded.wavefronts, loaded.requests) == (0, 1)


def test_halves_of_a_branch_have_sixteen_lanes_and_meet_again() -> None:
    launched = execute(
        "setp.lt.s32 %p1, %r1, 16;",
        "@%p1 bra left;",
        "add.s32 %r3, %r1, 1;",
        "bra.uni both;",
        "left:",
        "sub.s32 %r3, %r1, 1;",
        "both:",
        "xor.b32 %r3, %r3, 1;",
    )
    assert at(launched, "add.s32") == at(launched, "sub.s32") == Tally(issued=1, lanes=16)
    assert at(launched, "xor.b32") == Tally(issued=1, lanes=32)


def test_lanes_that_leave_a_loop_wait_for_the_others() -> None:
    """Lane i takes i + 1 turns; the code after the loop, which is at a lower address, is executed once."""
    launched = execute(
        "mov.u32 %r3, 0;",
        "bra.uni turn;",
        "after:",
        "xor.b32 %r3, %r3, 1;",
        "ret;",
        "turn:",
        "add.s32 %r3, %r3, 1;",
        "setp.le.s32 %p1, %r3, %r1;",
        "@%p1 bra turn;",
        "bra.uni after;",
    )
    assert at(launched, "add.s32 %r3") == Tally(issued=32, lanes=32 * 33 // 2)
    assert at(launched, "xor.b32") == Tally(issued=1, lanes=32)


def test_instructions_without_active_lanes_take_issue_slots() -> None:
    launched = execute(
        "setp.lt.s32 %p1, %r1, 0;",
        "setp.lt.s32 %p2, %r1, 4;",
        "@%p1 add.s32 %r3, %r1, 1;",
        "@%p2 sub.s32 %r3, %r1, 1;",
    )
    assert at(launched, "add.s32") == Tally(issued=1, lanes=0)
    assert at(launched, "sub.s32") == Tally(issued=1, lanes=4)


def test_a_device_that_does_not_count_has_no_tallies() -> None:
    device = Device()
    counts = device.load(KERNEL.format(body="")).launch(1, 32, device.buffer(np.zeros(1, np.float32)))
    assert not counts.tallies
    assert not device.launched
    assert counts.touched_bytes == 0
