"""Building blocks of benchmarks between ranks: lockstep, MPI and NCCL."""
