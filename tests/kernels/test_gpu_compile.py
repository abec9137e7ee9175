"""Every GPU kernel compiled without a GPU, for the architectures in use, and what its machine code must be like."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import SimpleNamespace

import pytest

from accelbench import kernels
from accelbench.execution.plan import discover
from accelbench.kernels.lib.gpu.compilation import (
    _architecture,
    _tool,
    architectures,
    compile_kernel,
    disassemble,
    main_loop,
    to_ptx,
)
from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, float32, void
from accelbench.kernels.report import _gpu_modules, device_kernels
from tests.conftest import ROOT
from tests.gpu.verify_small import small_points
from tests.requirements import CUDA12

KERNELS = device_kernels()
HOPPER = (9, 0)
"""The architecture for which continuous integration compiles every kernel."""
JOBS = [
    pytest.param(
        kernel,
        capability,
        id=f"{kernel.name}-{capability[0]}.{capability[1]}",
        marks=[] if capability == HOPPER else pytest.mark.exhaustive,
    )
    for kernel in KERNELS
    for capability in architectures(kernel)
]


def named(*words: str) -> list[DeviceKernel]:
    found = [kernel for kernel in KERNELS if set(words) <= set(kernel.name.split())]
    assert found
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "capability"), JOBS)
def test_a_kernel_compiles_and_keeps_its_arrays_in_registers(kernel: DeviceKernel, capability: tuple[int, int]) -> None:
    code = compile_kernel(kernel, capability)
    assert 0 < code.registers <= 255
    assert code.stack_bytes == 0, "an array went to local memory"
    if kernel.tuned:
        assert code.spill_bytes == 0


def test_every_file_that_defines_kernels_declares_them() -> None:
    defining = {
        path
        for path in Path(kernels.__path__[0]).rglob("gpu_*.py")
        if re.search(r"cuda\.jit|RawModule|RawKernel", path.read_text(encoding="utf-8"))
    }
    assert defining
    assert [path.name for path in defining if "def device_code()" not in path.read_text(encoding="utf-8")] == []


def test_every_benchmark_with_kernels_of_its_own_is_verified_at_small_points() -> None:
    verified = {discover()[point.benchmark].implementation("gpu", point.params) for point in small_points()}
    declaring = {each.__name__ for each in _gpu_modules(kernels) if each.device_code() and hasattr(each, "prepare")}
    assert declaring == verified


def test_no_two_kernels_have_one_name() -> None:
    names = [kernel.name for kernel in KERNELS]
    assert sorted(names) == sorted(set(names))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "instruction", "at_least"),
    [
        (("matmul", "numba", "float32", "128x128"), "FFMA", 8 * 128),
        (("matmul", "numba", "float64", "128x64"), "DFMA", 8 * 64),
        (("matmul", "numba", "float32", "columns<=8"), "LDG.E.128", 8),
        (("matmul", "numba", "float32", "rows<=4"), "LDG.E.128", 4),
        (("stream", "cupy", "triad", "float32"), "LDG.E.128", 2),
        (("stream", "cupy", "triad", "float64"), "STG.E.128", 1),
        (("stream", "numba", "triad", "float32"), "LDG.E.128", 2),
        (("stream", "numba", "copy", "float64"), "STG.E.128", 1),
        (("norm", "numba"), "STG.E.128", 1),
        (("softmax-xent", "numba"), "LDG.E.128", 1),
        (("optimizer-step", "numba"), "LDG.E.128", 4),
        (("optimizer-step", "numba"), "STG.E.128", 3),
        (("nqueens", "tuned"), "LDS.128", 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)], ids=str)
def test_the_main_loop_has_the_instructions_that_make_it_fast(
    words: tuple[str, ...], instruction: str, at_least: int, capability: tuple[int, int]
) -> None:
    for kernel in named(*words):
        loop = compile_kernel(kernel, capability).loop
        assert sum(instruction in line for line in loop) >= at_least, "\n".join(loop)


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)], ids=str)
def test_nine_of_ten_instructions_of_a_float32_tile_multiply(capability: tuple[int, int]) -> None:
    (kernel,) = named("matmul", "numba", "float32", "128x128")
    loop = compile_kernel(kernel, capability).loop
    assert sum("FFMA" in line for line in loop) > 0.92 * len(loop)


@pytest.mark.slow
def test_float32_arithmetic_is_not_widened() -> None:
    for kernel in named("matmul", "numba", "float32"):
        assert ".f64" not in to_ptx(kernel, (9, 0))


def test_the_main_loop_is_the_innermost_that_holds_most_of_the_work() -> None:
    lines = [(16 * i, f"I{i}") for i in range(20)]
    assert main_loop(lines) == ()
    lines[19] = (16 * 19, f"BRA {16 * 19:#x}")  # the trap that ends every kernel
    assert main_loop(lines) == ()
    lines[17] = (16 * 17, "@P0 BRA 0x10")  # 1..17
    lines[9] = (16 * 9, "@!P1 BRA.U 0x80")  # 8..9: too small to be where the time goes
    assert main_loop(lines) == tuple(text for _, text in lines[1:18])
    lines[16] = (16 * 16, "@P2 BRA P3, 0x40")  # 4..16
    assert main_loop(lines) == tuple(text for _, text in lines[4:17])
    lines[8] = (16 * 8, "HGMMA.64x256x16.F32 R24, gdesc[UR12]")  # small, but the tensor cores' time goes there
    assert main_loop(lines) == tuple(text for _, text in lines[8:10])


@pytest.mark.slow
def test_the_shared_memory_of_a_launch_is_counted() -> None:
    for name, shared in (("mma float16", 96 * 1024), ("mma float16 narrow", 80 * 1024), ("wgmma float16", 229_440)):
        (found,) = [kernel for kernel in KERNELS if kernel.name == f"matmul {name}"]
        assert compile_kernel(found, (9, 0)).shared_bytes == shared


def hungry(values, out):  # type: ignore[no-untyped-def]
    """120 sums that all live through the loop: more than 64 registers."""
    sums = cuda.local.array(120, float32)
    for i in range(120):
        sums[i] = values[i]
    for step in range(values.shape[0] - 240):
        for i in range(120):
            sums[i] = sums[i] * sums[(i + 7) % 120] + values[i + step]
    for i in range(120):
        out[i] = sums[i]


@pytest.mark.slow
def test_spills_and_local_memory_are_seen() -> None:
    kernel = NumbaKernel("hungry", cuda.jit(hungry, launch_bounds=(1024, 1)), void(float32[::1], float32[::1]))
    generous = NumbaKernel("generous", cuda.jit(hungry), kernel.signature)
    starved = compile_kernel(kernel, (9, 0))
    assert starved.registers <= 64
    assert starved.spill_bytes + starved.stack_bytes > 0
    assert compile_kernel(generous, (9, 0)).registers > 64


def test_a_kernel_that_does_not_compile_says_why() -> None:
    with pytest.raises(RuntimeError, match="undefined"):
        compile_kernel(CudaKernel("broken", "broken", 'extern "C" __global__ void broken() { undefined(); }'), (9, 0))


AS_ON_A_DEVICE = """
import sys
from types import SimpleNamespace
from numba.cuda import codegen, dispatcher
from accelbench.kernels.report import _gpu_modules, device_kernels

major, minor, name, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
device = SimpleNamespace(compute_capability=(major, minor))
dispatcher.get_current_device = lambda: device
codegen.devices = SimpleNamespace(get_context=lambda: SimpleNamespace(device=device))
(kernel,) = [kernel for kernel in device_kernels() if kernel.name == name]
assert kernel.function.targetoptions["lto"]
launched = dispatcher._Kernel(kernel.function.py_func, kernel.signature.args, **kernel.function.targetoptions)
open(path, "wb").write(launched._codelibrary.get_cubin().code)
"""
"""What Numba's dispatcher does at the first launch on a device of that compute capability, up to loading the code."""


def architecture(binary: bytes) -> str:
    """What a cubin was made for, `sm_90a`."""
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        listed = subprocess.run([_tool("nvdisasm"), file.name], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\.target\s+(\w+)", listed)[0]


@pytest.mark.slow
@pytest.mark.parametrize("capability", [(8, 0), (9, 0)], ids=str)
@pytest.mark.parametrize("name", ["nqueens tuned", "matmul numba float32 128x128"])
def test_what_is_listed_is_what_a_device_runs(name: str, capability: tuple[int, int], tmp_path: Path) -> None:
    binary = tmp_path / "kernel.cubin"
    command = [sys.executable, "-c", AS_ON_A_DEVICE, *map(str, capability), name, str(binary)]
    subprocess.run(command, check=True, cwd=ROOT)
    (kernel,) = [kernel for kernel in KERNELS if kernel.name == name]
    assert architecture(binary.read_bytes()) == f"sm_{_architecture(kernel, capability)}"
    listed = compile_kernel(kernel, capability)
    assert len(listed.instructions) > 100
    launched = [text for _, text in disassemble(binary.read_bytes())]
    # A function's own name, which a return may hold, has a number of its process in it.
    assert [re.sub(r"`\(.*\)", "", text) for text in launched] == [
        re.sub(r"`\(.*\)", "", text) for text in listed.instructions
    ]


@pytest.mark.slow
def test_the_report_is_a_table_that_says_what_was_compiled() -> None:
    command = [sys.executable, "-m", "accelbench.kernels.report", "nqueens", "prefix", "--sass"]
    outcome = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert outcome.returncode == 0, outcome.stderr
    assert re.search(r"nqueens prefix\s+8\.0\s+\d+\s+9,216\s+0\s+0\s+\d+ instr\.\s+node", outcome.stdout)
    assert "LDS" in outcome.stdout


@pytest.mark.slow
def test_the_report_refuses_a_name_that_no_kernel_has() -> None:
    command = [sys.executable, "-m", "accelbench.kernels.report", "nothing"]
    outcome = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert outcome.returncode == 2
    assert "no kernel's name" in outcome.stderr


def test_a_tuned_kernel_that_spills_is_a_failure(monkeypatch: pytest.MonkeyPatch, capsys) -> None:  # type: ignore[no-untyped-def]
    from accelbench.kernels import report

    code = SimpleNamespace(registers=255, shared_bytes=0, stack_bytes=96, spill_bytes=96, loop=("FFMA",))
    monkeypatch.setattr(report, "compile_kernel", lambda kernel, capability: code)
    monkeypatch.setattr(report, "device_kernels", lambda: [NumbaKernel("greedy", None, None, tuned=True)])
    monkeypatch.setattr(sys, "argv", ["accelbench.kernels.report"])
    assert report.main() == 1
    assert "spilled: greedy" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.needs("cuda-12")
def test_every_kernel_compiles_without_spills_by_cuda_12() -> None:
    report = [CUDA12, "-m", "accelbench.kernels.report", "--capability", "9.0"]
    outcome = subprocess.run(report, cwd=ROOT, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert re.match(r"compiled by nvJitLink 12\.\d+, NVRTC 12\.\d+\n", outcome.stdout)
    compiled = re.findall(r" 9\.0 +\d+ +[\d,]+ +0 +0 ", outcome.stdout)
    assert len(compiled) == sum((9, 0) in architectures(kernel) for kernel in KERNELS)
