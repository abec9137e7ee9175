"""The modules of a package: what is found by its place is found here."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType


def modules_of(package: str) -> dict[str, ModuleType]:
    """Import every module that lies in the package, and return them by their names there, in the order of these.

    What begins with an underscore, as a package's program `__main__`, is left out.
    """
    names = sorted(found.name for found in iter_modules(import_module(package).__path__))
    return {name: import_module(f"{package}.{name}") for name in names if not name.startswith("_")}
