"""Atomic additions without a return value (RED), to global and shared memory, for Numba-CUDA kernels.

For float32 the instruction is written in inline PTX. Numba would use a libNVVM intrinsic, which libNVVM of CUDA 12.9
accepts for compute capability 9.0 but not for 10.0 (libNVVM of CUDA 13 accepts it for both).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from accelbench.kernels.lib.gpu.numba_cuda import intrinsic, types


def _addition(space: str) -> Any:
    """Return the intrinsic `add(array, index, value)` for one-dimensional arrays in a PTX state space."""

    @intrinsic
    def add(typing: Any, array: Any, index: Any, value: Any) -> Any:
        known = isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"
        if not known or array.dtype != value or value not in (types.int32, types.int64, types.float32):
            return None

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target, place, added = arguments
            pointer = builder.gep(context.make_array(array)(context, builder, target).data, [place])
            if value == types.float32:
                code = f"{{ .reg .u64 place; cvta.to.{space}.u64 place, $0; red.{space}.add.f32 [place], $1; }}"
                takes = ir.FunctionType(ir.VoidType(), [ir.IntType(64), ir.FloatType()])
                instruction = ir.InlineAsm(takes, code, "l,f,~{memory}", side_effect=True)
                builder.call(instruction, [builder.ptrtoint(pointer, ir.IntType(64)), added])
            else:
                builder.atomic_rmw("add", pointer, added, "monotonic")
            return context.get_dummy_value()

        return types.void(array, types.intp, value), codegen

    return add


add_to_memory, add_to_shared = _addition("global"), _addition("shared")
