"""One kernel, compiled for ARM by `tests.kernels.cross`, called by a small C program under QEMU's emulation.

The program reads the arrays from its standard input, calls the kernel as Numba's own wrapper does (a place for the
result, one for what is raised, then each array as the fields of Numba's structure), and writes the arrays.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np

QEMU, COMPILER = "qemu-aarch64", "aarch64-linux-gnu-gcc"
ALIGNMENT = 64
C_TYPES = {"float32": "float", "float64": "double"}

PROGRAM = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
extern int kernel({types}) __asm__("{symbol}");
static void *take(size_t size) {{
    void *place = aligned_alloc({alignment}, (size / {alignment} + 2) * {alignment});
    if (!place || fread(place, 1, size, stdin) != size) exit(101);
    return place;
}}
int main(void) {{
    int64_t result = 0;
    void *raised = 0;
    {takes}
    int status = kernel({values});
    if (status) return 102;
    {writes}
    return 0;
}}
"""


def source(symbol: str, arguments: tuple[Any, ...]) -> str:
    """Return the C program that calls a kernel with such arguments: contiguous arrays, numbers, None."""
    types, values, takes, writes = ["void *", "void **"], ["&result", "&raised"], [], []
    for i, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
            numbers = [argument.size, argument.itemsize], [*argument.shape, *argument.strides]
            types += ["void *"] * 2 + ["int64_t"] * 2 + ["void *"] + ["int64_t"] * len(numbers[1])
            values += ["0", "0", *map(str, numbers[0]), f"a{i}", *map(str, numbers[1])]
            takes.append(f"void *a{i} = take({argument.nbytes});")
            writes.append(f"fwrite(a{i}, 1, {argument.nbytes}, stdout);")
        elif isinstance(argument, np.floating):
            types.append(C_TYPES[argument.dtype.name])
            values.append(float(argument).hex())
        elif argument is None:
            types.append("void *")
            values.append("0")
        else:
            types.append(f"{argument.dtype.name}_t" if isinstance(argument, np.integer) else "int64_t")
            values.append(f"{int(argument)}")
    lines = {"types": types, "values": values}
    joined = {name: ", ".join(parts) for name, parts in lines.items()}
    return PROGRAM.format(
        symbol=symbol, alignment=ALIGNMENT, takes="\n    ".join(takes), writes="\n    ".join(writes), **joined
    )


def call(code: Path, symbol: str, arguments: tuple[Any, ...], cpu: str, folder: Path) -> list[Any]:
    """Return the arrays as the kernel left them, on that CPU of QEMU's."""
    program, binary = folder / "driver.c", folder / "driver"
    program.write_text(source(symbol, arguments))
    # The runtime of Python that a kernel refers to is for what it never does here: raise, and free arrays.
    unresolved = "-Wl,--unresolved-symbols=ignore-all"
    subprocess.run([COMPILER, "-O1", "-static", "-o", binary, program, code, unresolved], check=True)
    arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
    given = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    told = subprocess.run([QEMU, "-cpu", cpu, binary], input=given, capture_output=True, check=True).stdout
    place, found = 0, []
    for array in arrays:
        found.append(np.frombuffer(told, array.dtype, array.size, place).reshape(array.shape))
        place += array.nbytes
    return found
