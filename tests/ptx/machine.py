"""Devices, modules and launches of the interpreter, for NumPy arrays."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tests.ptx.build import build_library

MAX_INSTRUCTIONS = 50_000_000
"""Warp instructions of a launch after which it counts as endless: minutes."""


class PtxError(RuntimeError):
    """A defect of a PTX text, a launch or an execution.

    `kind` is "syntax" or "launch", or for an execution "bounds", "misaligned", "uninitialised", "read-only", "race",
    "proxy", "in-flight", "convergence", "barrier", "deadlock", "limit", "trap", "arithmetic" or "unsupported". `line`
    is a line of the PTX text, 0 without one; `block` and `thread` are linear numbers, -1 without one.
    """

    def __init__(self, message: str, kind: str, line: int = 0, block: int = -1, thread: int = -1) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.line, self.block, self.thread = kind, line, block, thread


class _Launch(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("dynamic_bytes", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
        ("resident", ctypes.c_uint32),
        ("limit", ctypes.c_uint64),
        ("races", ctypes.c_bool),
        ("counts", ctypes.c_bool),
    ]


class _Counts(ctypes.Structure):
    _fields_ = [
        ("warp_instructions", ctypes.c_uint64),
        ("lane_instructions", ctypes.c_uint64),
        ("touched_sectors", ctypes.c_uint64),
    ]


class Tally(NamedTuple):
    """Work of the warps at one instruction, or the sum over several."""

    issued: int = 0
    """Warp instructions, with those whose predicate excludes all lanes."""
    lanes: int = 0
    """Thread instructions: lanes that execute it."""
    wavefronts: int = 0
    """Passes through shared memory, of 32 banks of 4 bytes."""
    conflicts: int = 0
    """Wavefronts that bank conflicts add."""
    requests: int = 0
    """Warp instructions that access global memory."""
    sectors: int = 0
    """Sectors of 32 bytes of global memory, distinct within a request."""
    used_bytes: int = 0
    """Distinct bytes of these sectors that the lanes access."""

    @staticmethod
    def total(tallies: Iterable[Tally]) -> Tally:
        """Return the sum of the tallies, field by field."""
        return Tally(*map(sum, zip(Tally(), *tallies, strict=True)))


class Counts(NamedTuple):
    """Instructions that a launch executed."""

    warp_instructions: int
    lane_instructions: int
    lines: dict[int, int]
    """How often warps executed the instructions on each line of the PTX text."""
    tallies: dict[int, Tally]
    """By line of the PTX text; empty unless the device counts."""
    touched_bytes: int
    """Bytes of the sectors of global memory that the launch accesses; 0 unless the device counts."""


@cache
def _library() -> Any:
    library = ctypes.CDLL(str(build_library()))
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64
    signatures = {
        "ptx_error_message": (text, ()),
        "ptx_error_kind": (text, ()),
        "ptx_create": (pointer, ()),
        "ptx_destroy": (None, (pointer,)),
        "ptx_allocate": (number, (pointer, pointer, number, ctypes.c_int, ctypes.c_int)),
        "ptx_release": (ctypes.c_int, (pointer, number)),
        "ptx_load": (pointer, (pointer, text)),
        "ptx_kernels": (text, (pointer,)),
        "ptx_histogram": (text, (pointer,)),
        "ptx_launch": (ctypes.c_int, (pointer, pointer, text, pointer, pointer, number, pointer)),
        "ptx_executed": (text, ()),
        "ptx_tallies": (ctypes.POINTER(number), (pointer,)),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _checked(result: Any) -> Any:
    """Return the result of a call; PtxError for 0 and null."""
    if result:
        return result
    library = _library()
    raise PtxError(
        library.ptx_error_message().decode(errors="replace"),
        library.ptx_error_kind().decode(),
        library.ptx_error_line(),
        library.ptx_error_block(),
        library.ptx_error_thread(),
    )


@dataclass(frozen=True)
class Buffer:
    """An array in a device's memory; kernels change `array` in place."""

    array: np.ndarray[Any, Any]
    address: int

    def as_numba(self) -> list[np.int64]:
        """Return the parameters by which Numba passes the array: two null pointers, sizes, address, shape, strides."""
        array = self.array
        values = (0, 0, array.size, array.itemsize, self.address, *array.shape, *array.strides)
        return [np.int64(value) for value in values]


class Launched(NamedTuple):
    """A launch of a device that counts."""

    text: str
    entry: str
    counts: Counts


class Device:
    """A device's memory and the modules that are loaded on it; with `counts`, its launches are tallied."""

    def __init__(self, counts: bool = False) -> None:
        self.counts = counts
        self.launched: list[Launched] = []
        """The launches so far, if the device counts."""
        self._handle = _library().ptx_create()
        self._arrays: dict[int, np.ndarray[Any, Any]] = {}  # keeps the memory alive

    def __del__(self) -> None:
        if handle := getattr(self, "_handle", None):
            _library().ptx_destroy(handle)

    def load(self, text: str) -> Module:
        """Parse a PTX text; raise PtxError of kind "syntax" with the line of an unknown instruction."""
        return Module(self, text, _checked(_library().ptx_load(self._handle, text.encode())))

    def read_only(self, array: np.ndarray[Any, Any]) -> Buffer:
        """Return a copy of the array, which no kernel may write."""
        return self._allocate(np.array(array, order="C"), read_only=True, initialised=True)

    def buffer(self, array: np.ndarray[Any, Any]) -> Buffer:
        """Return a copy of the array, which kernels may read and write."""
        return self._allocate(np.array(array, order="C"), read_only=False, initialised=True)

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Buffer:
        """Return an array, which kernels must write before they read it. Its bytes are 0xa5."""
        array = np.full(int(np.prod(shape)) * np.dtype(dtype).itemsize, 0xA5, np.uint8).view(dtype).reshape(shape)
        return self._allocate(array, read_only=False, initialised=False)

    def free(self, buffer: Buffer) -> None:
        """Free the array; a kernel that accesses it later is an error."""
        _checked(_library().ptx_release(self._handle, buffer.address))
        del self._arrays[buffer.address]

    def _allocate(self, array: np.ndarray[Any, Any], read_only: bool, initialised: bool) -> Buffer:
        address = _checked(
            _library().ptx_allocate(self._handle, array.ctypes.data, array.nbytes, read_only, initialised)
        )
        self._arrays[address] = array
        return Buffer(array, address)


class Module:
    """The kernels of one PTX text."""

    def __init__(self, device: Device, text: str, handle: Any) -> None:
        self._device, self._text, self._handle = device, text, handle
        self.kernels: dict[str, list[tuple[int, int]]] = {}
        """The (offset, size) in bytes of each parameter, by kernel."""
        for line in _library().ptx_kernels(handle).decode().splitlines():
            name, _, listed = line.rpartition(":")
            pairs = (entry.split() for entry in listed.split(",") if entry)
            self.kernels[name] = [(int(offset), int(size)) for offset, size in pairs]

    def histogram(self) -> dict[str, int]:
        """Return how often each opcode, with its modifiers, is in the text."""
        lines = _library().ptx_histogram(self._handle).decode().splitlines()
        return {name: int(count) for name, _, count in (line.rpartition(" ") for line in lines)}

    def launch(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        *arguments: Any,
        entry: str | None = None,
        shared: int = 0,
        seed: int = 1,
        resident: int = 4,
        races: bool = True,
        limit: int = MAX_INSTRUCTIONS,
    ) -> Counts:
        """Execute a kernel, the only one without `entry`; PtxError for what it does wrong.

        An argument is a Buffer, a NumPy scalar or bytes; lists are flattened, as `Buffer.as_numba` returns one.
        `shared` is dynamic shared memory in bytes. `seed` decides the order of warps, `resident` how many blocks or
        clusters run at the same time, and `races` whether data races are looked for.
        """
        if entry is None:
            (entry,) = self.kernels
        settings = _Launch(_three(grid), _three(block), shared, seed, resident, limit, races, self._device.counts)
        parameters = self._pack(entry, arguments)
        counts = _Counts()
        _checked(
            _library().ptx_launch(
                self._device._handle, self._handle, entry.encode(), ctypes.byref(settings), parameters, len(parameters),
                ctypes.byref(counts),
            )
        )  # fmt: skip
        lines: Counter[int] = Counter()
        for entry_line in _library().ptx_executed().decode().splitlines():
            line, times = entry_line.split()
            lines[int(line)] += int(times)
        found = Counts(
            counts.warp_instructions, counts.lane_instructions, dict(lines), _tallies(), 32 * counts.touched_sectors
        )
        if self._device.counts:
            self._device.launched.append(Launched(self._text, entry, found))
        return found

    def _pack(self, entry: str, arguments: Sequence[Any]) -> bytes:
        values: list[bytes] = []
        for argument in arguments:
            for value in argument if isinstance(argument, list | tuple) else [argument]:
                raw = np.uint64(value.address) if isinstance(value, Buffer) else value
                values.append(raw if isinstance(raw, bytes) else np.asarray(raw).tobytes())
        layout = self.kernels.get(entry)
        if layout is None:
            raise PtxError(f"no kernel {entry}", "launch")
        if [len(value) for value in values] != [size for _, size in layout]:
            given, expected = [len(value) for value in values], [size for _, size in layout]
            raise PtxError(f"{entry} has parameters of {expected} bytes, not {given}", "launch")
        packed = bytearray(sum(layout[-1]) if layout else 0)
        for (offset, size), value in zip(layout, values, strict=True):
            packed[offset : offset + size] = value
        return bytes(packed)


def _tallies() -> dict[int, Tally]:
    """Return the tallies of the last launch by line."""
    count = ctypes.c_uint64()
    numbers = _library().ptx_tallies(ctypes.byref(count))[: count.value]
    found: dict[int, Tally] = {}
    for start in range(0, len(numbers), 8):
        line, *values = numbers[start : start + 8]
        found[line] = Tally.total([found.get(line, Tally()), Tally(*values)])
    return found


def _three(extents: int | Sequence[int]) -> Any:
    given = (extents,) if isinstance(extents, int) else tuple(extents)
    if not all(0 < extent < 1 << 31 for extent in given):
        raise PtxError(f"a grid or block of {given}", "launch")
    return (ctypes.c_uint32 * 3)(*given, *(1,) * (3 - len(given)))


def tensor_map(buffer: Buffer, box: Sequence[int], swizzle: int = 0) -> bytes:
    """Return the descriptor of a C-contiguous array for bulk copies of boxes, extents from the last axis to the first.

    Its 128 bytes are in the interpreter's own encoding, not the driver's.
    """
    array = buffer.array
    rank, sizes = array.ndim, array.shape[::-1]
    strides = array.strides[::-1][1:]
    header = [("magic", "u4"), ("rank", "u1"), ("element", "u1"), ("swizzle", "u1"), ("unused", "u1")]
    extents = [("address", "u8"), ("strides", "u8", 4), ("sizes", "u4", 5), ("box", "u4", 5)]
    record = np.zeros(1, [*header, *extents])
    record["magic"], record["rank"], record["element"], record["swizzle"] = 0x50545854, rank, array.itemsize, swizzle
    record["address"] = buffer.address
    record["strides"][0, : rank - 1], record["sizes"][0, :rank], record["box"][0, :rank] = strides, sizes, box
    return record.tobytes().ljust(128, b"\0")
