"""The machine: environment facts, CPU placement, free memory, vendors' peaks, NVIDIA's libraries, package names."""
