"""What the interpreter reports: one kernel for each kind of defect, and the same kernel mended, which runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.ptx.machine import Device, PtxError
from tests.ptx.sources import compile_cuda

pytestmark = pytest.mark.needs("g++")

THREADS = 64
SEEDS = range(1, 7)


@dataclass(frozen=True)
class Defect:
    """A kernel in CUDA C++ of which `wrong` is a defect of that kind, and `right` (instead of `wrong`) is none."""

    kind: str
    body: str
    wrong: str
    right: str
    grid: int = 1


DEFECTS = {
    "a read beyond the array": Defect("bounds", "out[i] = in[i + AT];", "1", "0"),
    "a read before the array": Defect("bounds", "out[i] = in[i + AT];", "-1", "0"),
    "shared memory beyond its size": Defect(
        "bounds", "extern __shared__ int d[]; d[i + AT] = i; out[i] = d[i + AT];", "1", "0"
    ),
    "a misaligned vector": Defect(
        "misaligned",
        "if (i < 8) { const int4 v = ((const int4*)(in + AT))[i]; out[i] = v.x + v.y + v.z + v.w; }",
        "1",
        "0",
    ),
    "an input that is written": Defect("read-only", "((int*)AT)[i] = i; out[i] = 1;", "in", "out"),
    "a load through the read-only path of memory that the kernel wrote": Defect(
        "non-coherent",
        "atomicAdd(out + i, i); __syncthreads(); if (AT == 5) __trap();",
        "__ldg(out + 62 - i / 2)",
        "out[62 - i / 2]",
    ),
    "a store to memory that was loaded through the read-only path": Defect(
        "non-coherent", "const int v = AT; __syncthreads(); atomicAdd(out + i, v);", "__ldg(out + i)", "out[i]"
    ),
    "shared memory that nobody wrote": Defect(
        "uninitialised", "__shared__ int s[64]; if (i < AT) s[i] = i; __syncthreads(); out[i] = s[i];", "63", "64"
    ),
    "global memory that nobody wrote": Defect("uninitialised", "if (AT) out[i] = 0; out[i] += 1;", "i", "1"),
    "local memory that nobody wrote": Defect(
        "uninitialised",
        "volatile int s[16]; for (int k = AT; k < 16; ++k) s[k] = k; out[i] = s[in[i] & 15];",
        "2",
        "0",
    ),
    "a barrier that is missing": Defect(
        "race",
        "__shared__ int s[64]; s[i] = 0; __syncthreads(); s[i] = i; AT; out[i] = s[63 - i];",
        "",
        "__syncthreads()",
    ),
    "a barrier that is missing before memory is reused": Defect(
        "race",
        "__shared__ int s[64]; for (int k = 0; k < 2; ++k) { s[i] = i; __syncthreads(); out[i] = s[63 - i]; AT; }",
        "",
        "__syncthreads()",
    ),
    "a synchronisation of the warp that is missing": Defect(
        "race", "__shared__ int s[64]; s[i] = i; AT; out[i] = s[i ^ 1];", "", "__syncwarp()"
    ),
    "blocks that write to one place": Defect("race", "if (i == 0) { AT; }", "out[0] += 1", "atomicAdd(out, 1)", 3),
    "a release without a fence": Defect(
        "race",
        "if (i) return; if (blockIdx.x == 0) { out[1] = 7; AT; atomicExch(out, 1); }"
        "else { while (atomicAdd(out, 0) == 0); __threadfence(); out[2] = out[1]; }",
        "",
        "__threadfence()",
        2,
    ),
    "an acquire without a fence": Defect(
        "race",
        "if (i) return; if (blockIdx.x == 0) { out[1] = 7; __threadfence(); atomicExch(out, 1); }"
        "else { while (atomicAdd(out, 0) == 0); AT; out[2] = out[1]; }",
        "",
        "__threadfence()",
        2,
    ),
    "a fence whose scope is the block between blocks": Defect(
        "race",
        "if (i) return; if (blockIdx.x == 0) { out[1] = 7; AT; atomicExch(out, 1); }"
        "else { while (atomicAdd(out, 0) == 0); __threadfence(); out[2] = out[1]; }",
        "__threadfence_block()",
        "__threadfence()",
        2,
    ),
    "an acquiring fence whose scope is the block between blocks": Defect(
        "race",
        "if (i) return; if (blockIdx.x == 0) { out[1] = 7; __threadfence(); atomicExch(out, 1); }"
        "else { while (atomicAdd(out, 0) == 0); AT; out[2] = out[1]; }",
        "__threadfence_block()",
        "__threadfence()",
        2,
    ),
    "a fence that is missing in a block": Defect(
        "race",
        "if (i == 0) { out[1] = 7; AT; atomicExch(out, 1); }"
        "if (i == 32) { while (atomicAdd(out, 0) == 0); __threadfence_block(); out[2] = out[1]; }",
        "",
        "__threadfence_block()",
    ),
    "a release whose scope is the block between blocks": Defect(
        "race",
        "if (i) return; if (blockIdx.x == 0) { out[1] = 7;"
        'asm volatile("st.release.AT.global.u32 [%0], 1;" :: "l"(out + 2) : "memory"); } else { int v; do '
        'asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(out + 2) : "memory"); while (!v);'
        "atomicExch(out, out[1]); }",
        "cta",
        "gpu",
        2,
    ),
    "an acquire whose scope is the block between blocks": Defect(
        "race",
        "if (i) return; if (blockIdx.x == 0) { out[1] = 7;"
        'asm volatile("st.release.gpu.global.u32 [%0], 1;" :: "l"(out + 2) : "memory"); } else { int v; do '
        'asm volatile("ld.acquire.AT.global.u32 %0, [%1];" : "=r"(v) : "l"(out + 2) : "memory"); while (!v);'
        "atomicExch(out, out[1]); }",
        "cta",
        "gpu",
        2,
    ),
    "a release that later relaxed stores do not repeat": Defect(
        "race",
        "if (i) return; if (blockIdx.x == 0) { out[1] = 7;"
        'asm volatile("st.release.gpu.global.u32 [%0], 1;" :: "l"(out + 2) : "memory");'
        'asm volatile("st.relaxed.gpu.global.u32 [%0], 1;" :: "l"(out + 3) : "memory"); } else { int v; do '
        'asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(out + AT) : "memory"); while (!v);'
        "atomicExch(out, out[1]); }",
        "3",
        "2",
        2,
    ),
    "an atomic of the block on what blocks share": Defect(
        "race", "if (i == 0) AT(out, 1);", "atomicAdd_block", "atomicAdd", 3
    ),
    "warps that wait at different barriers": Defect(
        "deadlock", 'asm volatile("bar.sync %0, 64;" :: "r"(i < 32 ? 1 : AT) : "memory"); out[i] = 0;', "2", "1"
    ),
    "lanes that wait at different instructions": Defect(
        "deadlock", "if (i % 32 < AT) out[i] = __shfl_sync(~0u, i, 3); else { __syncwarp(); out[i] = 5; }", "31", "32"
    ),
    "a shuffle outside of its mask": Defect("convergence", "out[i] = __shfl_sync(AT, i, 0);", "0xffffu", "~0u"),
    "a division by zero": Defect("arithmetic", "out[i] = 5 / in[AT];", "0", "1"),
    "a kernel that stops itself": Defect("trap", "if (AT) __trap(); out[i] = 0;", "i == 5", "0"),
    "a loop without an end": Defect("limit", "while (*(volatile const int*)(in + AT) == 0); out[i] = 1;", "0", "1"),
    "a copy that is not waited for": Defect(
        "in-flight",
        "__shared__ __align__(16) int s[64]; if (i < 16) { unsigned to = __cvta_generic_to_shared(s + 4 * i);"
        'asm volatile("cp.async.cg.shared.global [%0], [%1], 16; cp.async.commit_group;" :: "r"(to), "l"(in + 4 * i)'
        ': "memory"); AT; } __syncthreads(); out[i] = s[i];',
        "",
        'asm volatile("cp.async.wait_group 0;" ::: "memory")',
    ),
    "a barrier of half a warp": Defect(
        "barrier", 'asm volatile("bar.sync 1, %0;" :: "r"(in[AT]) : "memory"); out[i] = 0;', "48", "32"
    ),
    "an mbarrier that is not there": Defect(
        "barrier",
        "__shared__ unsigned long long b; unsigned to = __cvta_generic_to_shared(&b); AT; if (i == 0)"
        'asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(to) : "memory"); out[i] = 0;',
        "",
        'if (i == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(to) : "memory")',
    ),
    "an mbarrier whose phase never ends": Defect(
        "deadlock",
        "__shared__ unsigned long long b; unsigned to = __cvta_generic_to_shared(&b);"
        'if (i == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], AT;" :: "r"(to) : "memory"); __syncthreads();'
        'asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(to) : "memory");'
        'asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"'
        ':: "r"(to) : "memory"); out[i] = 0;',
        "65",
        "64",
    ),
}


def execute(defect: Defect, part: str, seed: int) -> None:
    """Run the kernel once: `in` is 0, 1, …, and `out` starts at 0 where its counters are counted up."""
    body = defect.body.replace("AT", part)
    source = f'extern "C" __global__ void k(const int* in, int* out) {{ const int i = threadIdx.x; {body} }}'
    device = Device()
    counts = "atomic" in defect.body + defect.right
    out = device.buffer(np.zeros(THREADS, np.int32)) if counts else device.empty(THREADS, np.int32)
    given = device.read_only(np.arange(THREADS, dtype=np.int32))
    module = device.load(compile_cuda(source))
    module.launch(defect.grid, THREADS, given, out, shared=4 * THREADS, seed=seed, limit=300_000)


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_found_and_the_mended_kernel_runs(name: str) -> None:
    defect = DEFECTS[name]
    kinds = set()
    for seed in SEEDS:
        execute(defect, defect.right, seed)
        try:
            execute(defect, defect.wrong, seed)
        except PtxError as error:
            kinds.add(error.kind)
    assert kinds == {defect.kind}


def test_a_fault_names_line_block_and_thread() -> None:
    source = 'extern "C" __global__ void k(int* out) { out[blockIdx.x * 32 + threadIdx.x] = 1; }'
    text, device = compile_cuda(source), Device()
    with pytest.raises(PtxError) as raised:
        device.load(text).launch(2, 32, device.empty(40, np.int32))
    error = raised.value
    assert (error.kind, error.block, error.thread) == ("bounds", 1, 8)
    assert text.splitlines()[error.line - 1].strip().startswith("st.global")


def test_an_endless_kernel_ends_with_the_place_of_each_warp() -> None:
    text = compile_cuda('extern "C" __global__ void k(volatile int* out) { while (out[0] == 0); out[1] = 1; }')
    device = Device()
    with pytest.raises(PtxError) as raised:
        device.load(text).launch(1, 64, device.buffer(np.zeros(2, np.int32)), limit=10_000)
    assert raised.value.kind == "limit"
    lines = [int(line) for line in re.findall(r"warp \d+ lanes 0xffffffff at line (\d+)", str(raised.value))]
    assert len(lines) == 2
    assert all("BB0_1" in "".join(text.splitlines()[line - 4 : line + 3]) for line in lines)


def test_arrays_that_overlap_are_a_race_unless_each_thread_has_its_own_element() -> None:
    source = 'extern "C" __global__ void k(const int* in, int* out) { out[threadIdx.x] = in[threadIdx.x] + 1; }'
    module = (device := Device()).load(compile_cuda(source))
    array = device.buffer(np.zeros(64, np.int32))
    module.launch(1, 64, array, array)
    assert (array.array == 1).all()
    with pytest.raises(PtxError) as raised:
        module.launch(1, 63, array, np.uint64(array.address + 4))
    assert raised.value.kind == "race"


def test_a_freed_array_is_not_accessible() -> None:
    source = 'extern "C" __global__ void k(int* out) { out[threadIdx.x] = 1; }'
    device = Device()
    out = device.empty(32, np.int32)
    device.free(out)
    with pytest.raises(PtxError) as raised:
        device.load(compile_cuda(source)).launch(1, 32, out)
    assert raised.value.kind == "bounds"


@pytest.mark.parametrize(
    ("grid", "block", "arguments", "shared"),
    [
        (0, 32, (np.uint64(0),), 0),
        (1, 1025, (np.uint64(0),), 0),
        ((2000, 2000), 32, (np.uint64(0),), 0),
        (-1, 32, (np.uint64(0),), 0),
        (1 << 32, 32, (np.uint64(0),), 0),
        (1, 32, (), 0),
        (1, 32, (np.uint32(0),), 0),
        (1, 32, (np.uint64(0),), 228 * 1024),
    ],
)
def test_invalid_launches(grid: Any, block: int, arguments: tuple[Any, ...], shared: int) -> None:
    module = Device().load(compile_cuda('extern "C" __global__ void k(int* out) {}'))
    with pytest.raises(PtxError) as raised:
        module.launch(grid, block, *arguments, shared=shared)
    assert raised.value.kind == "launch"


def test_a_kernel_that_does_not_exist() -> None:
    module = Device().load(compile_cuda('extern "C" __global__ void k() {}'))
    with pytest.raises(PtxError) as raised:
        module.launch(1, 1, entry="other")
    assert raised.value.kind == "launch"


@pytest.mark.parametrize(
    ("end", "is_defect"),
    [
        ("", True),
        ("barrier.cluster.arrive.release;", True),
        ("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;", False),
        ("barrier.cluster.arrive.relaxed; barrier.cluster.wait;", False),
    ],
)
def test_a_block_ends_after_the_accesses_to_its_shared_memory(end: str, is_defect: bool) -> None:
    source = f"""
        extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int* out) {{
            __shared__ int s[1];
            unsigned rank, to = __cvta_generic_to_shared(s);
            asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
            asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
            if (rank == 0)
                asm volatile("{{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, 1;"
                             "st.shared::cluster.u32 [there], 7; }}" :: "r"(to) : "memory");
            asm volatile("{end}" ::: "memory");
            if (rank) out[0] = 1;
        }}"""
    module_text, kinds = compile_cuda(source), []
    for seed in SEEDS:
        device = Device()
        try:
            device.load(module_text).launch(2, 1, device.empty(1, np.int32), seed=seed)
        except PtxError as error:
            kinds.append(error.kind)
    assert len(kinds) == (len(SEEDS) if is_defect else 0)
    assert set(kinds) <= {"race", "bounds"}


def test_the_same_seed_gives_the_same_execution() -> None:
    source = (
        'extern "C" __global__ void k(int* next, int* order)'
        "{ if (threadIdx.x % 32 == 0) order[atomicAdd(next, 1)] = blockIdx.x * 8 + threadIdx.x / 32; }"
    )

    def order(seed: int) -> list[int]:
        device = Device()
        out = device.empty(64, np.int32)
        device.load(compile_cuda(source)).launch(8, 256, device.buffer(np.zeros(1, np.int32)), out, seed=seed)
        assert sorted(out.array) == list(range(64))
        return list(out.array)

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(5)}) == 5
