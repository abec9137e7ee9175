"""Interleaved measurement of two sides on one machine; consecutive measurements are compared in pairs."""
