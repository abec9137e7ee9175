"""Published and own reference results, and the comparison of a run with them."""
