"""Compilation of every GPU kernel without a GPU, and properties of the machine code."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

from accelbench import kernels
from accelbench.execution.plan import discover
from accelbench.kernels.lib.gpu.compilation import (
    MachineCode,
    _architecture,
    _tool,
    architectures,
    compile_kernel,
    disassemble,
    main_loop,
    to_ptx,
)
from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel, NumbaKernel, TritonKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, float32, void
from accelbench.kernels.report import _gpu_modules, device_kernels
from tests.conftest import ROOT
from tests.gpu.verify_small import small_points
from tests.requirements import CUDA12

KERNELS = device_kernels()
HOPPER = (9, 0)
"""Compute capability for which continuous integration compiles every kernel."""
JOBS = [
    pytest.param(
        kernel,
        capability,
        id=f"{kernel.name}-{capability[0]}.{capability[1]}",
        marks=[
            *([] if capability == HOPPER and not isinstance(kernel, TritonKernel) else [pytest.mark.exhaustive]),
            *([pytest.mark.needs("triton")] if isinstance(kernel, TritonKernel) else []),
        ],
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
    # Triton's compiler may spill registers outside of the main loop.
    assert code.stack_bytes == 0 or isinstance(kernel, TritonKernel), "an array in local memory, or a spilled register"
    assert code.loop_accesses == 0
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
        (("stream", "cupy", "triad", "float32"), "LDG.E.128", 4),
        (("stream", "cupy", "triad", "float64"), "STG.E.128", 2),
        (("stream", "numba", "triad", "float32"), "LDG.E.128", 4),
        (("stream", "numba", "copy", "float64"), "STG.E.128", 2),
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
        code = compile_kernel(kernel, capability)
        lines = code.loop or code.instructions  # stream has no loop
        assert sum(instruction in line for line in lines) >= at_least, "\n".join(lines)


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)], ids=str)
def test_nine_of_ten_instructions_of_a_float32_tile_multiply(capability: tuple[int, int]) -> None:
    (kernel,) = named("matmul", "numba", "float32", "128x128")
    loop = compile_kernel(kernel, capability).loop
    assert sum("FFMA" in line for line in loop) > 0.92 * len(loop)


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)], ids=str)
def test_hardly_any_ffma_of_a_float32_tile_reads_three_registers_of_one_bank(capability: tuple[int, int]) -> None:
    """Such an FFMA takes an additional cycle. On an H100, a tile with 51 of them in 1,024 reached 15 % less."""
    (kernel,) = named("matmul", "numba", "float32", "128x128")
    delayed = bank_conflicts(compile_kernel(kernel, capability).loop)
    assert delayed < 0.01 * 1024


def bank_conflicts(lines: Sequence[str]) -> int:
    """Return the number of FFMA instructions that read three registers of one bank.

    The two banks contain the even and the odd registers. An operand marked `reuse` is kept for the same place of the
    next instruction and needs no bank. Source: Jia et al., Dissecting the NVIDIA Volta GPU Architecture via
    Microbenchmarking (2018), section 3.1.
    """
    found, kept = 0, {}
    for line in lines:
        operands = line.split(",")[1:4] if "FFMA" in line else []
        registers = {place: int(r[1]) for place, o in enumerate(operands) if (r := re.search(r"\bR(\d+)", o))}
        read = [number for place, number in registers.items() if kept.get(place) != number]
        found += len(read) == 3 and len({number % 2 for number in read}) == 1
        kept = {place: number for place, number in registers.items() if ".reuse" in operands[place]}
    return found


@pytest.mark.slow
def test_wgmma_waits_once_for_the_multiplications_of_a_stage() -> None:
    """ptxas serialises them, with a wait after each, if it cannot keep the sums in registers."""
    for kernel in named("matmul", "wgmma"):
        code = compile_kernel(kernel, HOPPER)
        multiplications = [line for line in code.instructions if "HGMMA" in line]
        assert sum("gsb0" in line for line in multiplications) == len(multiplications) / 4
        assert not any("MEMBAR" in line for line in code.loop)


@pytest.mark.slow
def test_float32_arithmetic_is_not_widened() -> None:
    for kernel in named("matmul", "numba", "float32"):
        assert ".f64" not in to_ptx(kernel, (9, 0))


def test_the_main_loop_is_the_innermost_loop_with_most_instructions() -> None:
    lines = [(16 * i, f"I{i}") for i in range(20)]
    assert main_loop(lines) == ()
    lines[19] = (16 * 19, f"BRA {16 * 19:#x}")  # the trap that ends every kernel
    assert main_loop(lines) == ()
    lines[17] = (16 * 17, "@P0 BRA 0x10")  # 1..17
    lines[9] = (16 * 9, "@!P1 BRA.U 0x80")  # 8..9: too small for the main loop
    assert main_loop(lines) == tuple(text for _, text in lines[1:18])
    lines[16] = (16 * 16, "@P2 BRA P3, 0x40")  # 4..16
    assert main_loop(lines) == tuple(text for _, text in lines[4:17])
    lines[8] = (16 * 8, "HGMMA.64x256x16.F32 R24, gdesc[UR12]")  # small, but with tensor-core instructions
    assert main_loop(lines) == tuple(text for _, text in lines[8:10])


@pytest.mark.slow
def test_the_shared_memory_of_a_launch_is_counted() -> None:
    for name, shared in (("mma float16", 96 * 1024), ("mma float16 narrow", 80 * 1024), ("wgmma float16", 229_440)):
        (found,) = [kernel for kernel in KERNELS if kernel.name == f"matmul {name}"]
        assert compile_kernel(found, (9, 0)).shared_bytes == shared


def hungry(values, out):  # type: ignore[no-untyped-def]
    """Compute 120 sums that are live during the loop: more than 64 registers."""
    sums = cuda.local.array(120, float32)
    for i in range(120):
        sums[i] = values[i]
    for step in range(values.shape[0] - 240):
        for i in range(120):
            sums[i] = sums[i] * sums[(i + 7) % 120] + values[i + step]
    for i in range(120):
        out[i] = sums[i]


@pytest.mark.slow
def test_spills_and_local_memory_are_reported() -> None:
    kernel = NumbaKernel("hungry", cuda.jit(hungry, launch_bounds=(1024, 1)), void(float32[::1], float32[::1]))
    generous = NumbaKernel("generous", cuda.jit(hungry), kernel.signature)
    starved = compile_kernel(kernel, (9, 0))
    assert starved.registers <= 64
    assert starved.spill_bytes + starved.stack_bytes > 0
    assert compile_kernel(generous, (9, 0)).registers > 64


def test_a_compilation_error_contains_the_compiler_message() -> None:
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
"""Program that does the steps of Numba's dispatcher at the first launch on a device, up to loading the code."""


def architecture(binary: bytes) -> str:
    """Return the architecture of a cubin, such as `sm_90a`."""
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        listed = subprocess.run([_tool("nvdisasm"), file.name], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\.target\s+(\w+)", listed)[0]


@pytest.mark.slow
@pytest.mark.parametrize("capability", [(8, 0), (9, 0)], ids=str)
@pytest.mark.parametrize("name", ["nqueens tuned", "matmul numba float32 128x128"])
def test_the_listed_code_is_the_code_loaded_on_a_device(name: str, capability: tuple[int, int], tmp_path: Path) -> None:
    binary = tmp_path / "kernel.cubin"
    command = [sys.executable, "-c", AS_ON_A_DEVICE, *map(str, capability), name, str(binary)]
    subprocess.run(command, check=True, cwd=ROOT)
    (kernel,) = [kernel for kernel in KERNELS if kernel.name == name]
    assert architecture(binary.read_bytes()) == f"sm_{_architecture(kernel, capability)}"
    listed = compile_kernel(kernel, capability)
    assert len(listed.instructions) > 100
    launched = [text for _, text in disassemble(binary.read_bytes())]
    # The function name, which a return may contain, depends on the process.
    assert [re.sub(r"`\(.*\)", "", text) for text in launched] == [
        re.sub(r"`\(.*\)", "", text) for text in listed.instructions
    ]


@pytest.mark.slow
def test_the_report_is_a_table_of_the_compiled_kernels() -> None:
    command = [sys.executable, "-m", "accelbench.kernels.report", "nqueens", "prefix", "--sass"]
    outcome = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert outcome.returncode == 0, outcome.stderr
    assert re.search(r"nqueens prefix\s+7\.5\s+\d+\s+9,216\s+0\s+0\s+\d+ instr\.\s+node", outcome.stdout)
    assert "LDS" in outcome.stdout


@pytest.mark.slow
def test_the_report_rejects_an_unknown_name() -> None:
    command = [sys.executable, "-m", "accelbench.kernels.report", "nothing"]
    outcome = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert outcome.returncode == 2
    assert "no kernel" in outcome.stderr


@pytest.mark.parametrize(("tuned", "spilled", "status"), [(True, 96, 1), (True, 0, 0), (False, 96, 0)])
def test_a_tuned_kernel_must_not_spill(
    tuned: bool, spilled: int, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from accelbench.kernels import report

    code = MachineCode(255, shared_bytes=0, stack_bytes=spilled, spill_bytes=spilled, instructions=(), loop=())
    greedy = NumbaKernel("greedy", None, None, tuned=tuned)
    monkeypatch.setattr(report, "compile_kernel", lambda kernel, capability: code)
    monkeypatch.setattr(report, "device_kernels", lambda: [greedy])
    monkeypatch.setattr(sys, "argv", ["accelbench.kernels.report", "--capability", "12.0"])
    assert report.main() == status
    assert ("spill registers: greedy" in capsys.readouterr().out) == bool(status)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.needs("cuda-12")
def test_every_kernel_compiles_without_spills_by_cuda_12() -> None:
    report = [CUDA12, "-m", "accelbench.kernels.report", "--capability", "9.0"]
    outcome = subprocess.run(report, cwd=ROOT, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert re.match(r"compiled by nvJitLink 12\.\d+, NVRTC 12\.\d+\n", outcome.stdout)
    compiled = re.findall(r" 9\.0 +\d+ +[\d,]+ +0 +0 ", outcome.stdout)
    own = [kernel for kernel in KERNELS if not isinstance(kernel, TritonKernel)]
    assert len(compiled) == sum((9, 0) in architectures(kernel) for kernel in own)
