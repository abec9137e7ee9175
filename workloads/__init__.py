"""Deep learning workloads: one module per published experiment."""

# A program started in a checkout also finds this folder on its path as top-level package.
if __name__ != "accelbench.workloads":
    raise ImportError("the package workloads is imported as accelbench.workloads", name=__name__)
