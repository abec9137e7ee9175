"""Framework traces: capture with the framework's own profiler, readers for each format, breakdown of a step."""
