"""Accesses of 16 bytes to global or shared memory for Numba-CUDA kernels.

Numba accesses one element at a time, and NVVM combines accesses only if it can prove their alignment, which it cannot
for array arguments. Here the caller guarantees the alignment.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from accelbench.kernels.lib.gpu.numba_cuda import intrinsic, types

ACCESS_BYTES = 16
"""Bytes of the widest access of a thread."""


def lanes(dtype: Any) -> int:
    """Return the elements of a Numba type in one access."""
    return ACCESS_BYTES * 8 // int(dtype.bitwidth)


def _accepts(array: Any, values: Any, *indices: Any) -> bool:
    flat = all(isinstance(x, types.Array) and x.ndim == 1 and x.layout == "C" for x in (array, values))
    return flat and array.dtype == values.dtype and all(isinstance(i, types.Integer) for i in indices)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [index])


def _vector(context: Any, kind: Any) -> Any:
    return ir.VectorType(context.get_data_type(kind.dtype), lanes(kind.dtype))


@intrinsic
def load_wide(typing: Any, values: Any, first: Any, array: Any, index: Any) -> Any:
    """values[first:] = array[index:] for 16 bytes that start at a multiple of 16; `values` is a local array."""
    if not _accepts(array, values, first, index):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, start, source, place = arguments
        vector = _vector(context, array)
        pointer = builder.bitcast(_pointer(context, builder, array, source, place), vector.as_pointer())
        loaded = builder.load(pointer, align=ACCESS_BYTES)
        local = _pointer(context, builder, values, target, start)
        for lane in range(vector.count):
            number = ir.Constant(ir.IntType(32), lane)
            builder.store(builder.extract_element(loaded, number), builder.gep(local, [number]))
        return context.get_dummy_value()

    return types.void(values, types.intp, array, types.intp), codegen


@intrinsic
def store_wide(typing: Any, array: Any, index: Any, values: Any, first: Any) -> Any:
    """array[index:] = values[first:] for 16 bytes that start at a multiple of 16; `values` is a local array."""
    if not _accepts(array, values, first, index):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, place, source, start = arguments
        vector = _vector(context, array)
        local = _pointer(context, builder, values, source, start)
        stored = ir.Constant(vector, ir.Undefined)
        for lane in range(vector.count):
            number = ir.Constant(ir.IntType(32), lane)
            stored = builder.insert_element(stored, builder.load(builder.gep(local, [number])), number)
        pointer = builder.bitcast(_pointer(context, builder, array, target, place), vector.as_pointer())
        builder.store(stored, pointer, align=ACCESS_BYTES)
        return context.get_dummy_value()

    return types.void(array, types.intp, values, types.intp), codegen
