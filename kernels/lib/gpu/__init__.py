"""Building blocks of GPU kernels: Numba-CUDA, memory accesses, device arrays, and compilation without a GPU."""
