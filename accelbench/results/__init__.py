"""Stored runs as input: find them by name, estimate durations from them, reuse their empirical peaks."""
