"""Benchmarks of kernels, memory and communication: a package for each, declared in its `__init__.py`."""

# In a checkout the folder is importable as `kernels`, too, which would load every module a second time.
if __name__ != "accelbench.kernels":
    raise ImportError("the package kernels is imported as accelbench.kernels", name=__name__)
