"""Lower bounds of all children of a partial schedule, as a Numba intrinsic with one job per vector lane.

Bound: integer vector instructions. Written as LLVM IR, not as assembly, so that it works on every CPU that LLVM
supports. 16-bit integers suffice: no sum exceeds 2 · (jobs + machines) · 99, 5,940 for 20 jobs on 10 machines.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from accelbench.kernels.lib.cpu.simd import INDEX

LANES = 32
"""Maximum jobs: a set of jobs is a 32-bit word. Two vector registers of AVX2, one of AVX-512, four of SSE2 or NEON."""
HALF = ir.IntType(16)
VECTOR = ir.VectorType(HALF, LANES)


def is_flat(array: types.Type, dtype: types.Type) -> bool:
    return isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C" and array.dtype == dtype


@intrinsic
def bound_children(typing: Any, times: Any, tails: Any, state: Any, optimum: Any, ends: Any) -> Any:
    """Return the jobs, one bit each, that can be appended with a bound below the optimum; write end times to `ends`.

    `state` is uint32[machines], with `front` in the lower half of each word and `remain` in the upper half. `times` and
    `ends` are int16[machines · LANES], ordered by machine; `tails` is int16[machines]. Bits of jobs that are already
    scheduled or do not exist are undefined.
    """
    given = (times, types.int16), (tails, types.int16), (state, types.uint32), (ends, types.int16)
    if not (all(is_flat(*pair) for pair in given) and optimum == types.int16):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = (times, tails, state, None, ends)
        arrays = [k and context.make_array(k)(context, builder, a) for k, a in zip(kinds, arguments, strict=True)]
        time_data, tail_data, state_data, _, end_data = (array and array.data for array in arrays)
        zeros = ir.Constant(VECTOR, [0] * LANES)

        def everywhere(value: Any) -> Any:
            one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), value, ir.IntType(32)(0))
            return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))

        def larger(one: Any, other: Any) -> Any:
            return builder.select(builder.icmp_signed(">", one, other), one, other)

        def row(data: Any, machine: Any) -> Any:
            place = builder.gep(data, [builder.mul(machine, INDEX(LANES))])
            return builder.bitcast(place, VECTOR.as_pointer())

        end, busy, bound = (cgutils.alloca_once_value(builder, zeros) for _ in range(3))
        machines = builder.extract_value(arrays[2].shape, 0)
        with cgutils.for_range(builder, machines) as loop:
            word = builder.load(builder.gep(state_data, [loop.index]))
            front = everywhere(builder.trunc(word, HALF))
            remain = everywhere(builder.trunc(builder.lshr(word, ir.IntType(32)(16)), HALF))
            tail = everywhere(builder.load(builder.gep(tail_data, [loop.index])))
            begin = larger(builder.load(end), front)
            ended = builder.add(begin, builder.load(row(time_data, loop.index), align=2))
            builder.store(ended, row(end_data, loop.index), align=2)
            builder.store(ended, end)
            builder.store(larger(builder.load(busy), builder.add(begin, remain)), busy)
            builder.store(larger(builder.load(bound), builder.add(builder.load(busy), tail)), bound)
        kept = builder.icmp_signed("<", builder.load(bound), everywhere(arguments[3]))
        return builder.bitcast(kept, ir.IntType(32))

    return types.uint32(times, tails, state, optimum, ends), codegen
