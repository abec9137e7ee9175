"""Compilation of GPU kernels to machine code on a machine without a GPU, with the options used on a device.

Numba-CUDA compiles to link-time code by NVVM, which nvJitLink optimises and assembles (from Hopper on for `sm_90a`
instead of `sm_90`). CuPy compiles CUDA C++ by NVRTC. Triton has its own assembler. All of them report the registers and
memory of a kernel, and nvdisasm lists its instructions (SASS). The extra `dev` installs the tools of CUDA 13; `make
kernels-report CUDA=12` uses those of CUDA 12.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import SimpleNamespace
from typing import Any

from accelbench.kernels.lib.gpu import triton_compiler
from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel, NumbaKernel, TritonKernel
from accelbench.profiling.child import child_environment, module_command
from accelbench.profiling.machine.packages import install_extra

LOCAL_ACCESS = re.compile(r"\b(?:LDL|STL)\b")
"""SASS of loads from and stores to local memory, which holds spilled registers."""
TENSOR_CORE = re.compile(r"\b(?:[HIDQ]|HG|IG|QG|UTCH|UTCQ)MMA\b")
"""SASS of matrix multiplications: mma.sync, wgmma, and the fifth generation's tcgen05."""
CAPABILITIES = ((7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (12, 0))
"""Compute capabilities for which kernels are listed: Turing, Ampere, Ada, Hopper, Blackwell (servers, desktops)."""
FIRST_SPECIFIC = (9, 0)
"""First compute capability for which Numba compiles architecture-specific code, `sm_90a`."""

Capability = tuple[int, int]


@dataclass(frozen=True)
class MachineCode:
    """Machine code of a kernel for one architecture."""

    registers: int
    shared_bytes: int
    """Shared memory of a block: declared in the source and added by the launch."""
    stack_bytes: int
    """Local memory of a thread, including spills; 0 if every array is in registers."""
    spill_bytes: int
    """Bytes of spill stores and spill loads."""
    instructions: tuple[str, ...]
    """SASS in order, with predicates and operands, without padding at the end."""
    loop: tuple[str, ...]
    """Instructions of the main loop (see `main_loop`); empty if there is none."""

    @property
    def loop_accesses(self) -> int:
        """Number of accesses to local memory in the main loop."""
        return sum(LOCAL_ACCESS.search(instruction) is not None for instruction in self.loop)


def architectures(kernel: DeviceKernel) -> list[Capability]:
    """Return the `CAPABILITIES` on which the kernel runs."""
    if isinstance(kernel, NumbaKernel):
        return list(CAPABILITIES)
    if isinstance(kernel, TritonKernel):
        return [c for c in CAPABILITIES if c >= triton_compiler.CAPABILITY]
    return [c for c in CAPABILITIES if c == kernel.capability or (c > kernel.capability and not kernel.exact)]


@cache
def compile_kernel(kernel: DeviceKernel, capability: Capability) -> MachineCode:
    """Return the machine code of a kernel; raise RuntimeError with the compiler's message if it does not compile."""
    if isinstance(kernel, CudaKernel):
        code = _read(*_cuda_binary(kernel.source, kernel.options, _architecture(kernel, capability)), kernel.entry)
        return replace(code, shared_bytes=code.shared_bytes + kernel.shared_bytes)
    if isinstance(kernel, TritonKernel):
        binary, listed, shared = _triton_binary(kernel, capability)
        return replace(_read(binary, listed), shared_bytes=shared)
    return _read(*_numba_binary(kernel, _architecture(kernel, capability)))


def to_ptx(kernel: NumbaKernel, capability: Capability) -> str:
    """Return the PTX of a Numba kernel, as NVVM compiles it before linking."""
    return str(_compile_numba(kernel, _architecture(kernel, capability), "ptx"))


def toolchain() -> str:
    """Return the versions of the compilers: `nvJitLink 13.5, NVRTC 13.5, Triton 3.9.0`."""
    from cuda.bindings import nvjitlink, nvrtc

    _, *runtime = nvrtc.nvrtcVersion()
    versions = {"nvJitLink": nvjitlink.version(), "NVRTC": runtime}
    found = [f"{name} {major}.{minor}" for name, (major, minor) in versions.items()]
    if find_spec("triton"):
        found.append(f"Triton {version('triton')}")
    return ", ".join(found)


def main_loop(lines: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """Return the loop in which the kernel spends its time, of (address, instruction) pairs.

    A loop is the span of a backward branch. The main loop is the smallest loop with tensor-core instructions, if there
    is one. Otherwise the search descends from the largest loop to inner ones, as long as the inner loop has more than
    half of the instructions of the outer one. Instructions that only some iterations execute are included.
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
    """Return whether the branch is the jump to itself that ends every kernel."""
    return target == address


def _span(loop: tuple[int, int]) -> int:
    return loop[1] - loop[0]


@dataclass(frozen=True)
class Architecture:
    """Target of machine code: a compute capability, and whether the code is specific to it."""

    major: int
    minor: int
    specific: bool

    def __str__(self) -> str:
        return f"{self.major}{self.minor}{'a' if self.specific else ''}"


def _architecture(kernel: DeviceKernel, capability: Capability) -> Architecture:
    """Return the architecture for which the kernel is compiled on a device of a compute capability."""
    specific = kernel.exact if isinstance(kernel, CudaKernel) else capability >= FIRST_SPECIFIC
    return Architecture(*capability, specific)


@contextmanager
def _without_a_device(architecture: Architecture) -> Iterator[None]:
    """Provide the compute capability that Numba reads from the current device when a kernel calls a device function."""
    from numba.cuda import dispatcher

    original = dispatcher.get_current_device
    here = SimpleNamespace(compute_capability=(architecture.major, architecture.minor))
    dispatcher.get_current_device = lambda: here
    try:
        yield
    finally:
        dispatcher.get_current_device = original


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
    """Return (cubin, assembler's output), linked by a process of `link`."""
    code = _compile_numba(kernel, architecture, "ltoir")
    command = module_command("accelbench.kernels.lib.gpu.link", f"sm_{architecture}")
    linked = subprocess.run(command, input=code, capture_output=True, env=child_environment())
    if linked.returncode != 0:
        raise RuntimeError(f"nvJitLink: {linked.stderr.decode()}")
    return linked.stdout, linked.stderr.decode()


@cache
def _cuda_binary(source: str, options: tuple[str, ...], architecture: Architecture) -> tuple[bytes, str]:
    """Return (cubin of the whole source, assembler's output)."""
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


def _triton_binary(kernel: TritonKernel, capability: Capability) -> tuple[bytes, str, int]:
    """Return (cubin, assembler's output, shared memory of the launch in bytes)."""
    knobs = triton_compiler.triton().knobs
    printed = StringIO()
    with knobs.nvidia.scope(), knobs.compilation.scope(), redirect_stdout(printed):
        knobs.nvidia.dump_ptxas_log, knobs.compilation.always_compile = True, True
        compiled = triton_compiler.compile_triton(kernel, capability)
    return compiled.asm["cubin"], printed.getvalue(), compiled.metadata.shared


@cache
def _tool(name: str) -> str:
    """Return the path of a CUDA program: from its wheel, which matches the other compilers, otherwise from PATH."""
    nvidia = importlib.import_module("nvidia")
    wheels = [path for root in nvidia.__path__ for path in Path(root).glob(f"*/bin/{name}")]
    found = str(wheels[0]) if wheels else shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} is not installed: {install_extra('dev')}")
    return found


def _read(binary: bytes, listed: str, entry: str | None = None) -> MachineCode:
    """Return a kernel of a cubin, the only one if `entry` is None; `listed` is the assembler's output."""
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
    """Return (address, instruction) of a function of a cubin, the only one if `entry` is None.

    Labels are replaced by addresses, and padding at the end is left out. Raise RuntimeError with nvdisasm's message
    if the input is no cubin.
    """
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        command = [_tool("nvdisasm"), "--print-code", "--no-dataflow", file.name]
        outcome = subprocess.run(command, capture_output=True, text=True, env=child_environment())
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
