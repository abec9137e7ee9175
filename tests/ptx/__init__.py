"""An interpreter that executes PTX on a CPU, and the tests of the GPU kernels that run under it.

The C++ in `interpreter/` parses and executes the text that a driver would assemble: warps with divergence, barriers,
shared memory, atomics, shuffles, matrix instructions, asynchronous copies, clusters. An access out of bounds, a
misaligned one, a read of what was not written, a data race, a missing proxy fence and a deadlock are errors.
"""
