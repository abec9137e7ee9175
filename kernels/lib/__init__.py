"""Building blocks that benchmarks share; nothing here imports a benchmark."""
