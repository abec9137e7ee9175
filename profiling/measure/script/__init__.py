"""Measurement of a user's script: start, steps, profilers, experiment, verdict."""
