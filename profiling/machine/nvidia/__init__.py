"""NVIDIA's libraries: the driver, its management library, the runtime and the toolkit."""
