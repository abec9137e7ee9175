"""Tree search, the irregular workload: backtracking on N-Queens, unbalanced trees, branch and bound."""
