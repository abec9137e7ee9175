"""Timing of one execution or training step: clocks, sampling, statistics and verification."""
