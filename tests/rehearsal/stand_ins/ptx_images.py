"""Modules as PTX text instead of machine code, since the simulated driver executes PTX.

The machine code is made all the same: its numbers of registers are written into the text as comments, and the driver
limits launches and occupancy by them.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from types import ModuleType
from typing import Any

SYMBOL_BYTES = 24
WITH_LENGTH = 4
"""Format of an entry of `.nv.info` with a given number of bytes (EIFMT_SVAL)."""
REGISTER_COUNT = 0x2F
"""Entry with a symbol and its number of registers (EIATTR_REGCOUNT)."""


def with_registers(text: bytes, cubin: bytes) -> bytes:
    """Return the PTX with a comment `//registers NAME COUNT` for each kernel of the machine code."""
    counts = "".join(f"//registers {name} {count}\n" for name, count in registers(cubin))
    return counts.encode() + text.rstrip(b"\0") + b"\0"


def registers(cubin: bytes) -> Iterator[tuple[str, int]]:
    """Yield the kernels of an ELF file with their registers per thread, from its section `.nv.info`."""
    (table,), (size, count, names) = struct.unpack_from("<Q", cubin, 0x28), struct.unpack_from("<3H", cubin, 0x3A)
    headers = [struct.unpack_from("<2I4Q2I", cubin, table + size * i) for i in range(count)]
    sections = {_text(cubin, headers[names][4] + header[0]): header for header in headers}
    place, end = (offset := sections[".nv.info"][4]), offset + sections[".nv.info"][5]
    while place < end:
        layout, attribute, length = struct.unpack_from("<2BH", cubin, place)
        if attribute == REGISTER_COUNT:
            symbol, found = struct.unpack_from("<2I", cubin, place + 4)
            (name,) = struct.unpack_from("<I", cubin, sections[".symtab"][4] + SYMBOL_BYTES * symbol)
            yield _text(cubin, sections[".strtab"][4] + name), found
        place += 4 + (length if layout == WITH_LENGTH else 0)


def _text(image: bytes, start: int) -> str:
    return image[start : image.index(b"\0", start)].decode()


def link_to_ptx(driver: ModuleType) -> None:
    """Make Numba's linker return PTX."""
    from cuda.core import ObjectCode

    link = driver._Linker.complete

    def complete(self: Any) -> Any:
        cubin = link(self).code
        return ObjectCode.from_ptx(with_registers(self.get_linked_ptx(), cubin))

    driver._Linker.complete = complete


def compile_to_ptx(nvrtc: ModuleType) -> None:
    """Make NVRTC return PTX instead of machine code."""
    get_size, get_image = nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN

    def image_of(program: Any) -> bytes:
        cubin = b" " * get_size(program)[1]
        get_image(program, cubin)
        text = b" " * nvrtc.nvrtcGetPTXSize(program)[1]
        nvrtc.nvrtcGetPTX(program, text)
        return with_registers(text, cubin)

    def size(program: Any) -> tuple[Any, int]:
        return nvrtc.nvrtcResult.NVRTC_SUCCESS, len(image_of(program))

    def image(program: Any, cubin: Any) -> tuple[Any]:
        found = image_of(program)
        ctypes.memmove(cubin, found, len(found))
        return (nvrtc.nvrtcResult.NVRTC_SUCCESS,)

    nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN = size, image


def link_runtime_to_ptx(machine_code: ModuleType) -> None:
    """Make the linking with the device runtime return PTX instead of machine code."""
    link_device_runtime = machine_code.link_device_runtime

    def linked(ptx: bytes, architecture: str) -> bytes:
        return with_registers(ptx, link_device_runtime(ptx, architecture))

    machine_code.link_device_runtime = linked


def triton_to_ptx(compiler: ModuleType) -> None:
    """Make Triton's compiler return PTX instead of machine code."""
    compile_triton = compiler.compile_triton

    def compiled(*arguments: Any) -> Any:
        found = compile_triton(*arguments)
        found.asm["cubin"] = with_registers(found.asm["ptx"].encode(), found.asm["cubin"])
        return found

    compiler.compile_triton = compiled
