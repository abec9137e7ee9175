"""The parser: every PTX text of the project decodes, and what it does not know is an error with its line."""

from __future__ import annotations

import pytest

from accelbench.kernels.lib.gpu.compilation import architectures
from accelbench.kernels.lib.gpu.device_code import DeviceKernel, TritonKernel
from tests.ptx.machine import Device, PtxError
from tests.ptx.sources import HOPPER, compile_cuda, entry_of, find_kernels, ptx_of

pytestmark = pytest.mark.needs("g++")

TEXTS = [
    pytest.param(
        kernel,
        capability,
        id=f"{kernel.name}-{capability[0]}.{capability[1]}",
        marks=[pytest.mark.slow] if capability == HOPPER else [pytest.mark.slow, pytest.mark.exhaustive],
    )
    for kernel in find_kernels()
    if not isinstance(kernel, TritonKernel)  # test_triton_kernels.py executes them
    for capability in architectures(kernel)
]
HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


def entry(*lines: str, parameters: str = "") -> str:
    return f"{HEADER}.visible .entry k({parameters})\n{{\n" + "\n".join(lines) + "\nret;\n}\n"


@pytest.mark.parametrize(("kernel", "capability"), TEXTS)
def test_every_kernel_decodes(kernel: DeviceKernel, capability: tuple[int, int]) -> None:
    module = Device().load(ptx_of(kernel, capability))
    assert module.histogram()["ret"] >= 1
    if entry_of(kernel):
        assert entry_of(kernel) in module.kernels
    else:
        assert len(module.kernels) == 1


@pytest.mark.parametrize(
    "instruction",
    [
        "frob.s32 %r1, %r2, %r3;",
        "add.s32.fast %r1, %r2, %r3;",
        "add %r1, %r2, %r3;",
        "add.s32 %r1, %r2, %r9;",
        "add.s32 %r1, %r2, 0q12;",
        "add.s32 %r1, %r2 %r3;",
        "setp.about.s32 %p1, %r1, %r2;",
        "bra missing;",
        "@%p9 bra there;",
        "mov.u32 %r1, %nosuch;",
        "mov.u64 %rd1, nosuch;",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 %r1, %r1, %r1, %r1;",
        "tex.2d.v4.f32.s32 {%r1, %r1, %r1, %r1}, [nosuch, {%r1, %r1}];",
        "call.uni nosuch;",
        "{ .reg .b32 %inner; } add.s32 %r1, %inner, %r2;",
    ],
)
def test_unknown_text_is_an_error_with_its_line(instruction: str) -> None:
    text = entry(".reg .b32 %r<4>;", ".reg .b64 %rd<2>;", ".reg .pred %p<2>;", "there:", instruction)
    with pytest.raises(PtxError) as raised:
        Device().load(text)
    assert (raised.value.kind, raised.value.line) == ("syntax", 10)


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("", 1),
        (HEADER.replace("8.0", "10.0"), 1),
        (HEADER.replace("8.0", "5.0"), 1),
        (HEADER.replace("8.0", "x"), 1),
        (HEADER.replace(".version 8.0\n", ""), 1),
        (HEADER.replace("sm_90", "sm_999"), 2),
        (HEADER.replace("sm_90", "gfx90a"), 2),
        (HEADER.replace("64", "32"), 3),
    ],
)
def test_unknown_versions_and_targets_are_errors(header: str, line: int) -> None:
    with pytest.raises(PtxError) as raised:
        Device().load(header)
    assert (raised.value.kind, raised.value.line) == ("syntax", line)
    Device().load(HEADER)


CALLS = {
    "recursion": """__device__ __noinline__ int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
        extern "C" __global__ void k(int* out) { out[0] = f(out[1]); }""",
    "an indirect call": """__device__ __noinline__ int a(int x) { return x + 1; }
        __device__ __noinline__ int b(int x) { return 2 * x; }
        __device__ int (*table[2])(int) = {a, b};
        extern "C" __global__ void k(int* out) { out[0] = table[out[1]](3); }""",
}


@pytest.mark.parametrize("kind", CALLS)
def test_functions_are_errors_with_their_line(kind: str) -> None:
    text = compile_cuda(CALLS[kind])
    with pytest.raises(PtxError) as raised:
        Device().load(text)
    assert raised.value.kind == "syntax"
    assert ".func" in text.splitlines()[raised.value.line - 1]


@pytest.mark.parametrize(
    "rest", [".visible .entry k(", ".func f() { ret; }", ".visible .entry k() { ret;", ".extern .func vprintf ();"]
)
def test_incomplete_modules_and_functions_are_errors(rest: str) -> None:
    with pytest.raises(PtxError) as raised:
        Device().load(HEADER + rest)
    assert (raised.value.kind, raised.value.line) == ("syntax", 4)


def test_parameters_are_laid_out_by_their_alignment() -> None:
    parameters = ".param .u32 a, .param .u64 b, .param .u8 c, .param .align 16 .b8 d[24]"
    assert Device().load(entry(parameters=parameters)).kernels == {"k": [(0, 4), (8, 8), (16, 1), (32, 24)]}


def test_the_alignment_of_what_a_parameter_points_to_is_not_its_own() -> None:
    parameters = ".param .u32 a, .param .u64 .ptr .global .align 1 b, .param .u64 .ptr .align 16 c"
    assert Device().load(entry(parameters=parameters)).kernels == {"k": [(0, 4), (8, 8), (16, 8)]}


def test_names_are_known_within_their_braces() -> None:
    """Inline assembly repeats labels and registers in braces of its own."""
    scope = "{ .reg .pred done; again: setp.eq.s32 done, %r1, %r1; @done bra out; bra again; out: }"
    Device().load(entry(".reg .b32 %r<2>;", "mov.u32 %r1, 3;", scope, scope)).launch(1, 32)


def test_initial_values_of_global_variables() -> None:
    text = entry(
        ".reg .b32 %r<3>;",
        ".reg .b64 %rd<3>;",
        "ld.param.u64 %rd1, [out];",
        "mov.u64 %rd2, table;",
        "ld.global.s16 %r1, [%rd2+2];",
        "st.global.u32 [%rd1], %r1;",
        parameters=".param .u64 out",
    )
    text = text.replace(".visible", ".global .align 4 .s16 table[4] = {7, -2, 5};\n.visible")
    device = Device()
    out = device.empty(1, "int32")
    device.load(text).launch(1, 1, out)
    assert out.array[0] == -2
