"""Benchmarks of kernels, memory and communication: a package for each, declared in its `__init__.py`."""

# A program that is started in a checkout has the folder on its path under this name, too.
if __name__ != "accelbench.kernels":
    raise ImportError("the package kernels is imported as accelbench.kernels", name=__name__)
