"""The host time of a process: py-spy's stacks, each thread's CPU time, and what the machine did meanwhile.

A probe disturbs what it watches, however little, so none may run during the timed samples of a microbenchmark: the
caller opens a `HostProfiler` around a training or around extra, untimed executions, and nowhere else. Of a training
that is profiled, the steps inside `Sampling.windows` can be told from those between them.
"""
