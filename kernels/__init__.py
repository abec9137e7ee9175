"""Benchmarks close to the metal: one package for each, declared in its `__init__.py`."""
