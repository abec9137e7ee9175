"""Stored runs as input: lookup by name, estimates of durations, reuse of ceilings (empirical peaks)."""
