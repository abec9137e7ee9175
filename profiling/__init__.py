"""How anything is measured: the types of a benchmark, timers, statistics, verification and the machine's record."""
