"""Measurement and profiling of any benchmark: records, timing, machine, devices, telemetry, profilers, analysis.

No module here depends on a particular benchmark, model, distribution strategy or axis name.
"""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

# In a checkout, the folder can also be imported under the name `profiling`, which would load each module twice.
if __name__ != "accelbench.profiling":
    raise ImportError("the package profiling is imported as accelbench.profiling", name=__name__)

PROJECT = Path(__file__).absolute().parents[2]
"""The folder that contains the package `accelbench`: the root of a checkout, or site-packages."""


def modules_of(package: str) -> dict[str, ModuleType]:
    """Import the public modules of a package and return them by name, sorted."""
    names = sorted(found.name for found in iter_modules(import_module(package).__path__))
    return {name: import_module(f"{package}.{name}") for name in names if not name.startswith("_")}
