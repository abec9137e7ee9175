"""Interpreter that executes PTX on a CPU, and tests of the GPU kernels with it.

The C++ in `interpreter/` parses and executes the text that a driver would assemble: warps with divergence, barriers,
shared memory, atomics, shuffles, matrix instructions (mma of 16-bit floats, tf32 and float64; wgmma of 16-bit floats
and tf32), cp.async, bulk tensor copies, mbarriers and clusters. Out-of-bounds and misaligned accesses, uninitialised
reads, data races, asynchronous copies or products without a wait, missing proxy fences and deadlocks are errors with a
line of the PTX. Races are detected by vector clocks: a missing fence, acquire or release is a race in every order of
execution.

Kernels launch kernels by the CUDA device runtime; races between a grid and its children are not detected.

Not executed: functions, other calls, fp8 and integer matrices, textures, matrix instructions of the fifth generation,
bulk copies without tensor maps. Of the many readers of a place, a sample of four is kept, and the scopes of mbarriers
are not distinguished. `python -m tests.ptx.mutations` plants errors into the kernels and counts those found.
"""
