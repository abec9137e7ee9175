"""Benchmarks at the level of training: one module per published experiment."""
