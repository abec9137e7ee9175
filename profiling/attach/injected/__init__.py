"""Folder on the `PYTHONPATH` of an observed script."""
