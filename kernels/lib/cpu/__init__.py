"""Building blocks of CPU kernels: threads, vector instructions, caches and memory."""
