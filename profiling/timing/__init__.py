"""How long one execution takes: clocks, samples, statistics and verification."""
