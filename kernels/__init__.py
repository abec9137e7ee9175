"""What is measured close to the metal: one package per benchmark, declared in its `__init__.py`."""
