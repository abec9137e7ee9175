"""The comparison of two runs: which points became faster or slower, and what differs between the machines."""
