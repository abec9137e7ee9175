"""The time of one execution: clocks, samples, statistics and verification."""
