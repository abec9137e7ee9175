"""Comparison of two sides of one or several runs: changes of speed, and differences between the environments."""
