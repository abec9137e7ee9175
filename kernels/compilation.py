"""GPU kernels compiled to machine code on a machine without a GPU, and what the machine code tells.

Numba-CUDA goes through NVVM, CUDA C++ through NVRTC, the PTX of both through ptxas, and nvdisasm lists the
instructions (SASS). All four come with the extra `dev`. The driver of a real device holds a ptxas of its own: registers
and instructions may differ a little from one version to the next.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from kernels.device_code import CudaKernel, DeviceKernel, NumbaKernel

TENSOR_CORE = re.compile(r"\b(?:[HIDQ]|HG|IG|QG|UTCH|UTCQ)MMA\b")
"""A multiplication of matrices: mma.sync, wgmma, and the fifth generation's own."""
CAPABILITIES = ((8, 0), (9, 0), (10, 0))
"""Ampere, Hopper, Blackwell: what data centres run."""

Capability = tuple[int, int]


@dataclass(frozen=True)
class MachineCode:
    """One kernel as ptxas made it for one architecture."""

    registers: int
    shared_bytes: int
    """Shared memory of a block: what the source declares and what the launch adds."""
    stack_bytes: int
    """Local memory of a thread, spills included: 0 where every array is in registers."""
    spill_bytes: int
    """Stored and loaded because the registers did not suffice."""
    instructions: tuple[str, ...]
    """SASS in order, with predicates and operands, without the closing padding."""
    loop: tuple[str, ...]
    """Those of the main loop: `main_loop`; empty where there is none."""


def device_kernels() -> list[DeviceKernel]:
    """Every kernel that a `gpu_*.py` under `kernels` declares, in the order of the files."""
    return [kernel for module in _gpu_modules(importlib.import_module("kernels")) for kernel in module.device_code()]


def _gpu_modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if found.ispkg:
            yield from _gpu_modules(importlib.import_module(found.name))
        elif found.name.rpartition(".")[2].startswith("gpu_"):
            module = importlib.import_module(found.name)
            if hasattr(module, "device_code"):
                yield module


def architectures(kernel: DeviceKernel) -> list[Capability]:
    """Those of `CAPABILITIES` on which the kernel runs."""
    if isinstance(kernel, NumbaKernel):
        return list(CAPABILITIES)
    return [c for c in CAPABILITIES if c == kernel.capability or (c > kernel.capability and not kernel.exact)]


def compile_kernel(kernel: DeviceKernel, capability: Capability) -> MachineCode:
    """The machine code of a kernel; RuntimeError with the compiler's own words if it does not compile."""
    suffix = "a" if isinstance(kernel, CudaKernel) and kernel.exact else ""
    entry, at_launch = (kernel.entry, kernel.shared_bytes) if isinstance(kernel, CudaKernel) else (None, 0)
    code = _assemble(to_ptx(kernel, capability), f"sm_{capability[0]}{capability[1]}{suffix}", entry)
    return replace(code, shared_bytes=code.shared_bytes + at_launch)


def to_ptx(kernel: DeviceKernel, capability: Capability) -> str:
    """The kernel's PTX, that of its whole source for CUDA C++."""
    if isinstance(kernel, NumbaKernel):
        return _numba_ptx(kernel, capability)
    suffix = "a" if kernel.exact else ""
    return _cuda_ptx(kernel.source, kernel.options, f"compute_{capability[0]}{capability[1]}{suffix}")


def main_loop(lines: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """The loop in which the kernel spends its time, of (address, instruction) pairs.

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
    """The branch to itself that ends every kernel."""
    return target == address


def _span(loop: tuple[int, int]) -> int:
    return loop[1] - loop[0]


@contextmanager
def _without_a_device(capability: Capability) -> Iterator[None]:
    """Numba asks the current device for its capability when a kernel calls a device function; here is the answer."""
    from numba.cuda import dispatcher

    asked = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    try:
        yield
    finally:
        dispatcher.get_current_device = asked


def _numba_ptx(kernel: NumbaKernel, capability: Capability) -> str:
    from kernels.numba_cuda import cuda

    options = {name: kernel.function.targetoptions.get(name) for name in ("fastmath", "launch_bounds")}
    with _without_a_device(capability):
        ptx, _ = cuda.compile_ptx(kernel.function.py_func, kernel.signature, cc=capability, **options)
    return str(ptx)


@cache
def _cuda_ptx(source: str, options: tuple[str, ...], architecture: str) -> str:
    from cuda.bindings import nvrtc

    def call(function: Any, *args: Any) -> Any:
        error, *results = function(*args)
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(f"{function.__name__}: {error.name}")
        return results[0] if results else None

    program = call(nvrtc.nvrtcCreateProgram, source.encode(), b"kernels.cu", 0, [], [])
    own = [option for option in options if "gpu-architecture" not in option]
    flags = [f"--gpu-architecture={architecture}".encode(), *(option.encode() for option in own)]
    (outcome,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    if outcome != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = b" " * call(nvrtc.nvrtcGetProgramLogSize, program)
        call(nvrtc.nvrtcGetProgramLog, program, log)
        raise RuntimeError(f"NVRTC: {log.decode()}")
    ptx = b" " * call(nvrtc.nvrtcGetPTXSize, program)
    call(nvrtc.nvrtcGetPTX, program, ptx)
    return str(ptx.rstrip(b"\0").decode())


@cache
def _tool(name: str) -> str:
    """The path of a CUDA program: out of its wheel, which fits the other compilers, else the machine's."""
    nvidia = importlib.import_module("nvidia")
    wheels = [path for root in nvidia.__path__ for path in Path(root).glob(f"*/bin/{name}")]
    found = str(wheels[0]) if wheels else shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} is not installed: the extra dev brings it")
    return found


@cache
def _assemble(ptx: str, architecture: str, entry: str | None) -> MachineCode:
    """The machine code of one kernel of the PTX, its only one where `entry` is None."""
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        listed = _output(_tool("ptxas"), "--verbose", f"--gpu-name={architecture}", str(source), "-o", str(binary))
        sass = _output(_tool("nvdisasm"), "--print-code", "--no-dataflow", str(binary))
    if entry is None:
        (entry,) = re.findall(r"Compiling entry function '([^']+)'", listed)
    used = listed[listed.index(f"Compiling entry function '{entry}'") :].partition("Compiling entry function '")[2]
    used = used.partition("Compiling entry function '")[0]
    lines = _instructions(sass, entry)
    return MachineCode(
        registers=_number(r"Used (\d+) registers", used),
        shared_bytes=_number(r"(\d+) bytes smem", used),
        stack_bytes=_number(r"(\d+) bytes stack frame", used),
        spill_bytes=_number(r"(\d+) bytes spill stores", used) + _number(r"(\d+) bytes spill loads", used),
        instructions=tuple(instruction for _, instruction in lines),
        loop=main_loop(lines),
    )


def _output(*command: str) -> str:
    outcome = subprocess.run(command, capture_output=True, text=True)
    if outcome.returncode != 0:
        raise RuntimeError(f"{Path(command[0]).name}: {outcome.stderr or outcome.stdout}")
    return outcome.stdout + outcome.stderr


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def _instructions(sass: str, entry: str) -> list[tuple[int, str]]:
    """(address, instruction) of one function of nvdisasm's listing, labels put in as addresses, padding left out."""
    section = sass.partition(f"\n.text.{entry}:")[2].partition("//-----")[0]
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
