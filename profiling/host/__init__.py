"""Host profiler: py-spy stacks, CPU time of each thread, and system counters of a process.

Profiling costs time, so it never runs during the timed samples of a microbenchmark: a `HostProfiler` is opened around
a training run or around extra, untimed executions. In a profiled training run, `Sampling.windows` separates the
profiled steps from the others.
"""
