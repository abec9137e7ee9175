"""Traces of training steps: captured with the framework's own profiler, read back without it."""
