"""Measurement of one point, from its declaration to its record; profiling of training workloads; FLOP counts."""
