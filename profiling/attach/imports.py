"""Callbacks after the import of modules that the script itself imports."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class ImportWatch:
    """Finder on `sys.meta_path` that calls a function with each of the given modules after its first import.

    At the begin of the first import of a package in `packages`, it calls `begun` with the name.
    """

    def __init__(
        self,
        callbacks: Mapping[str, Callable[[ModuleType], object]],
        packages: set[str] | None = None,
        begun: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._callbacks, self._packages, self._begun = dict(callbacks), packages or set(), begun
        for name in [name for name in callbacks if name in sys.modules]:
            self._callbacks.pop(name)(sys.modules[name])
        if self._callbacks:
            sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a watched module from the other finders, with a loader that calls the function."""
        if name in self._packages:
            self._packages.remove(name)
            self._begun(name)
        callback = self._callbacks.pop(name, None)
        if callback is None:
            return None
        if not self._callbacks:
            self.remove()
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    _call_after(spec.loader, callback)
                return spec
        return None

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def _call_after(loader: object, callback: Callable[[ModuleType], object]) -> None:
    execute: Callable[[ModuleType], object] = loader.exec_module  # type: ignore[attr-defined]

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module  # type: ignore[attr-defined]
        execute(module)
        callback(module)

    loader.exec_module = exec_module  # type: ignore[attr-defined]
