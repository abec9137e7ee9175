"""Benchmarks at the level of training: one module per published experiment."""

# A program that is started in a checkout has the folder on its path under this name, too.
if __name__ != "accelbench.workloads":
    raise ImportError("the package workloads is imported as accelbench.workloads", name=__name__)
