"""An interpreter that executes PTX on a CPU, and the tests of the GPU kernels that run under it.

The C++ in `interpreter/` parses and executes the text that a driver would assemble: warps with divergence, barriers,
shared memory, atomics, shuffles, matrix instructions (mma of 16-bit floats, tf32 and float64; wgmma of 16-bit floats),
cp.async, bulk tensor copies, mbarriers and clusters. An access out of bounds, a misaligned one, a read of what was not
written, a data race, an asynchronous copy or product that is not waited for, a missing proxy fence and a deadlock are
errors with their line of the PTX. Races are found by vector clocks: a missing fence, acquire or release is a race
whatever the order of execution.

Not executed: functions and calls, fp8 and integer matrices, textures, matrix instructions of the fifth generation,
bulk copies without tensor maps. Scopes of fences and atomics are not distinguished, and of the many readers of a place
a sample of four is kept. `python -m tests.ptx.mutations` plants errors into the kernels and counts those found.
"""
