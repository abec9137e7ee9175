"""The measurement of one point, from its declaration to its record: kernels, training workloads and their profile."""
