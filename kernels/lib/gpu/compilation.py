"""GPU kernels compiled to machine code on a machine without a GPU, as a device's own process compiles them.

Numba-CUDA has NVVM make link-time code, which nvJitLink optimises and assembles, for `sm_90a` rather than `sm_90` from
Hopper on. CuPy has NVRTC assemble CUDA C++. Both libraries say what registers and memory a kernel takes, and nvdisasm
lists its instructions (SASS). All come with the extra `dev`, of CUDA 13; `make kernels-report CUDA=12` compiles with
those of CUDA 12.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import SimpleNamespace
from typing import Any

from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel, NumbaKernel
from accelbench.profiling.install import install_extra

TENSOR_CORE = re.compile(r"\b(?:[HIDQ]|HG|IG|QG|UTCH|UTCQ)MMA\b")
"""A multiplication of matrices: mma.sync, wgmma, and the fifth generation's own."""
CAPABILITIES = ((8, 0), (9, 0), (10, 0))
"""Ampere, Hopper, Blackwell: what data centres run."""
FIRST_SPECIFIC = (9, 0)
"""From this compute capability on Numba compiles for the very architecture of the device, `sm_90a`."""

Capability = tuple[int, int]


@dataclass(frozen=True)
class MachineCode:
    """One kernel as it was assembled for one architecture."""

    registers: int
    shared_bytes: int
    """Shared memory of a block: what the source declares and what the launch adds."""
    stack_bytes: int
    """Local memory of a thread, spills included: 0 where every array is in registers."""
    spill_bytes: int
    """The bytes stored and loaded because the registers did not suffice."""
    instructions: tuple[str, ...]
    """SASS in order, with predicates and operands, without the closing padding."""
    loop: tuple[str, ...]
    """The instructions of the main loop, which `main_loop` finds; empty where there is none."""


def architectures(kernel: DeviceKernel) -> list[Capability]:
    """Return those of `CAPABILITIES` on which the kernel runs."""
    if isinstance(kernel, NumbaKernel):
        return list(CAPABILITIES)
    return [c for c in CAPABILITIES if c == kernel.capability or (c > kernel.capability and not kernel.exact)]


@cache
def compile_kernel(kernel: DeviceKernel, capability: Capability) -> MachineCode:
    """Return the machine code of a kernel; RuntimeError with the compiler's own words if it does not compile."""
    if isinstance(kernel, CudaKernel):
        code = _read(*_cuda_binary(kernel.source, kernel.options, _architecture(kernel, capability)), kernel.entry)
        return replace(code, shared_bytes=code.shared_bytes + kernel.shared_bytes)
    return _read(*_numba_binary(kernel, _architecture(kernel, capability)))


def to_ptx(kernel: NumbaKernel, capability: Capability) -> str:
    """Return the PTX that NVVM makes of a Numba kernel, before it is linked."""
    return str(_compile_numba(kernel, _architecture(kernel, capability), "ptx"))


def toolchain() -> str:
    """Return the versions of the compilers, which are those of one CUDA: `nvJitLink 13.5, NVRTC 13.5`."""
    from cuda.bindings import nvjitlink, nvrtc

    _, *runtime = nvrtc.nvrtcVersion()
    versions = {"nvJitLink": nvjitlink.version(), "NVRTC": runtime}
    return ", ".join(f"{name} {major}.{minor}" for name, (major, minor) in versions.items())


def main_loop(lines: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """Return the loop in which the kernel spends its time, of (address, instruction) pairs.

    A loop is what a backward branch spans. Where tensor cores multiply, it is the smallest loop that has them multiply.
    Else, from the largest on, the one inside is taken as long as it holds more than half of the instructions of the one
    around it. Instructions that only some turns execute are among them.
    """
    loops = []
    for address, instruction in lines:
        target = re.search(r"\bBRA(?:\.\w+)*.*?(0x[0-9a-f]+)\s*$", instruction)
        if target and int(target[1], 16) <= address and not _is_trap(int(target[1], 16), address):
            loops.append((int(target[1], 16), address))
    if not loops:
        return ()
    multiplying = [
        (first, last)
        for first, last in loops
        if any(first <= address <= last and TENSOR_CORE.search(instruction) for address, instruction in lines)
    ]
    present = min(multiplying, key=_span) if multiplying else max(loops, key=_span)
    while not multiplying:
        inside = [loop for loop in loops if loop != present and present[0] <= loop[0] and loop[1] <= present[1]]
        inside = [loop for loop in inside if _span(loop) > _span(present) / 2]
        if not inside:
            break
        present = max(inside, key=_span)
    return tuple(instruction for address, instruction in lines if present[0] <= address <= present[1])


def _is_trap(target: int, address: int) -> bool:
    """Return whether the branch is the one to itself that ends every kernel."""
    return target == address


def _span(loop: tuple[int, int]) -> int:
    return loop[1] - loop[0]


@dataclass(frozen=True)
class Architecture:
    """The target of machine code: a compute capability, and whether the code may use what later ones lack."""

    major: int
    minor: int
    specific: bool

    def __str__(self) -> str:
        return f"{self.major}{self.minor}{'a' if self.specific else ''}"


def _architecture(kernel: DeviceKernel, capability: Capability) -> Architecture:
    """Return the architecture that the kernel is compiled for on a device of that capability."""
    specific = kernel.exact if isinstance(kernel, CudaKernel) else capability >= FIRST_SPECIFIC
    return Architecture(*capability, specific)


@contextmanager
def _without_a_device(architecture: Architecture) -> Iterator[None]:
    """Numba asks the current device for its capability when a kernel calls a device function; here is the answer."""
    from numba.cuda import dispatcher

    asked = dispatcher.get_current_device
    here = SimpleNamespace(compute_capability=(architecture.major, architecture.minor))
    dispatcher.get_current_device = lambda: here
    try:
        yield
    finally:
        dispatcher.get_current_device = asked


def _compile_numba(kernel: NumbaKernel, architecture: Architecture, output: str) -> Any:
    """Compile to PTX (`ptx`, a string) or link-time code (`ltoir`, bytes), by NVVM."""
    from accelbench.kernels.lib.gpu.numba_cuda import cuda

    options = {name: kernel.function.targetoptions.get(name) for name in ("fastmath", "launch_bounds")}
    cc = (architecture.major, architecture.minor, "a" if architecture.specific else "")
    with _without_a_device(architecture):
        code, _ = cuda.compile(
            kernel.function.py_func, kernel.signature, cc=cc, device=False, abi="numba", output=output, **options
        )
    return code


def _numba_binary(kernel: NumbaKernel, architecture: Architecture) -> tuple[bytes, str]:
    """Return (cubin, what the assembler says of it), by `accelbench.kernels.lib.gpu.link`."""
    code = _compile_numba(kernel, architecture, "ltoir")
    command = [sys.executable, "-m", "accelbench.kernels.lib.gpu.link", f"sm_{architecture}"]
    linked = subprocess.run(command, input=code, capture_output=True, cwd=Path(__file__).parents[4])
    if linked.returncode != 0:
        raise RuntimeError(f"nvJitLink: {linked.stderr.decode()}")
    return linked.stdout, linked.stderr.decode()


@cache
def _cuda_binary(source: str, options: tuple[str, ...], architecture: Architecture) -> tuple[bytes, str]:
    """Return (cubin of the whole source, what the assembler says of it)."""
    from cuda.bindings import nvrtc

    def call(function: Any, *args: Any) -> Any:
        error, *results = function(*args)
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(f"{function.__name__}: {error.name}")
        return results[0] if results else None

    program = call(nvrtc.nvrtcCreateProgram, source.encode(), b"kernels.cu", 0, [], [])
    own = [option for option in options if "gpu-architecture" not in option]
    flags = [option.encode() for option in (f"--gpu-architecture=sm_{architecture}", "--ptxas-options=-v", *own)]
    (outcome,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    log = b" " * call(nvrtc.nvrtcGetProgramLogSize, program)
    call(nvrtc.nvrtcGetProgramLog, program, log)
    if outcome != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(f"NVRTC: {log.decode()}")
    binary = b" " * call(nvrtc.nvrtcGetCUBINSize, program)
    call(nvrtc.nvrtcGetCUBIN, program, binary)
    return binary, log.decode()


@cache
def _tool(name: str) -> str:
    """Return the path of a CUDA program: out of its wheel, which fits the other compilers, else the machine's."""
    nvidia = importlib.import_module("nvidia")
    wheels = [path for root in nvidia.__path__ for path in Path(root).glob(f"*/bin/{name}")]
    found = str(wheels[0]) if wheels else shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} is not installed: {install_extra('dev')}")
    return found


def _read(binary: bytes, listed: str, entry: str | None = None) -> MachineCode:
    """Return one kernel of a cubin, its only one where `entry` is None; `listed` is what the assembler says of it."""
    if entry is None:
        (entry,) = re.findall(r"Compiling entry function '([^']+)'", listed)
    used = listed[listed.index(f"Compiling entry function '{entry}'") :].partition("Compiling entry function '")[2]
    used = used.partition("Compiling entry function '")[0]
    lines = disassemble(binary, entry)
    return MachineCode(
        registers=_number(r"Used (\d+) registers", used),
        shared_bytes=_number(r"(\d+) bytes smem", used),
        stack_bytes=_number(r"(\d+) bytes stack frame", used),
        spill_bytes=_number(r"(\d+) bytes spill stores", used) + _number(r"(\d+) bytes spill loads", used),
        instructions=tuple(instruction for _, instruction in lines),
        loop=main_loop(lines),
    )


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def disassemble(binary: bytes, entry: str | None = None) -> list[tuple[int, str]]:
    """Return (address, instruction) of one function of a cubin, its only one where `entry` is None.

    Labels are put in as addresses, and the padding at the end is left out. RuntimeError with nvdisasm's own words if
    the cubin is none.
    """
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        command = [_tool("nvdisasm"), "--print-code", "--no-dataflow", file.name]
        outcome = subprocess.run(command, capture_output=True, text=True)
    if outcome.returncode != 0:
        raise RuntimeError(f"nvdisasm: {outcome.stderr or outcome.stdout}")
    if entry is None:
        (entry,) = re.findall(r"\n\.text\.(\S+):", outcome.stdout)
    section = outcome.stdout.partition(f"\n.text.{entry}:")[2].partition("//-----")[0]
    labels: dict[str, int] = {}
    waiting: list[str] = []
    lines: list[tuple[int, str]] = []
    for line in section.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            waiting.append(label[1])
        elif code := re.match(r"\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;", line):
            address = int(code[1], 16)
            labels |= dict.fromkeys(waiting, address)
            waiting.clear()
            lines.append((address, code[2]))
    named = [
        (address, re.sub(r"`\((\.L_x_\d+)\)", lambda m: hex(labels.get(m[1], 0)), text)) for address, text in lines
    ]
    while named and named[-1][1] == "NOP":
        named.pop()
    return named
