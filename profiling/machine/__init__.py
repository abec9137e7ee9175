"""Facts about the machine: environment, CPU placement, memory, vendors' peaks, NVIDIA's libraries, packages."""
