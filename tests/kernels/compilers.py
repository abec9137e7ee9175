"""The compiler in use on every Python kernel: `python -m tests.kernels.compilers` prints a line for each.

ACCELBENCH_NUMBA=numba-cuda-mlir takes the successor; docs/compilers.md shows both. Machine code needs ptxas and
nvdisasm; `--ptx` goes without, and tells from which memories a kernel loads.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from kernels.compilation import _tool, device_kernels, to_ptx
from kernels.device_code import NumbaKernel
from kernels.numba_cuda import cuda, successor

CAPABILITY = (9, 0)


def compiled(kernel: NumbaKernel) -> str:
    """The kernel's PTX; whatever the compiler raises where it cannot."""
    if not successor:
        return to_ptx(kernel, CAPABILITY)
    from numba_cuda_mlir import tools

    tools._cached_cc = CAPABILITY  # it asks the current device, and none need be here
    options = {name: kernel.function.targetoptions.get(name) for name in ("fastmath", "launch_bounds")}
    given = {name: value for name, value in options.items() if value is not None}
    ptx, _ = cuda.compile_ptx(kernel.function.py_func, kernel.signature, cc=CAPABILITY, **given)
    return str(ptx)


def machine_code(ptx: str) -> tuple[int, int, int]:
    """(registers, bytes spilled, instructions without padding), as ptxas makes it."""
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        (target,) = re.findall(r"^\.target (\w+)", ptx, re.MULTILINE)
        told = subprocess.run(
            [_tool("ptxas"), "--verbose", f"--gpu-name={target}", source, "-o", binary],
            capture_output=True,
            text=True,
        )
        if told.returncode != 0:
            raise RuntimeError(f"ptxas: {told.stderr}")
        listed = subprocess.run(
            [_tool("nvdisasm"), "--print-code", binary], capture_output=True, text=True, check=True
        ).stdout
    spilled = sum(int(n) for n in re.findall(r"(\d+) bytes spill", told.stderr + told.stdout))
    registers = re.findall(r"Used (\d+) registers", told.stderr + told.stdout)
    instructions = [text for text in re.findall(r"/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", listed) if text != "NOP"]
    return int(registers[0]), spilled, len(instructions)


def memories(ptx: str) -> list[str]:
    """Return the memories that the kernel loads from: `global`, `local`, `shared`."""
    return sorted(set(re.findall(r"\bld\.(?:volatile\.)?(global|local|shared)\b", ptx)))


def main() -> None:
    """Print a line per kernel: its name, registers, bytes spilled and instructions, or why it does not compile."""
    os.environ["NUMBA_CUDA_MLIR_ICE_FULL_TB"] = "1"  # its errors come with their reason, and leave no file behind
    for kernel in device_kernels():
        if not isinstance(kernel, NumbaKernel):
            continue
        try:
            ptx = compiled(kernel)
            told: list[object] = ["loads from", *memories(ptx)] if "--ptx" in sys.argv else [*machine_code(ptx)]
        except Exception as error:  # noqa: BLE001 - each compiler raises its own kinds
            told = ["FAILED", str(error).partition("\n")[0]]
        print(kernel.name, *told, sep="\t", flush=True)


if __name__ == "__main__":
    main()
