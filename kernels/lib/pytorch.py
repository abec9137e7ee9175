"""Import of PyTorch, which is optional and slow to import."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.machine.packages import install_extra


def pytorch(module: str = "torch") -> ModuleType:
    """Import PyTorch or one of its modules; Skip if it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise Skip(f"PyTorch cannot be imported ({error}): {install_extra('torch')}") from error
