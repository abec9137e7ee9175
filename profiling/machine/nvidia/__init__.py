"""NVIDIA's libraries: driver (libcuda), NVML, CUDA runtime, NVBench and toolkit."""
