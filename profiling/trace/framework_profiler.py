"""A framework's profiler with error handling."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

from accelbench.profiling.trace.frameworks import FRAMEWORKS


class Profiler:
    """Profiler of one framework, started and stopped at most once.

    Exceptions of the framework are stored in `reason` and not raised, so that they do not end the measurement.
    """

    def __init__(self, folder: Path, backend: str) -> None:
        self._folder, self._backend = folder, backend
        self._framework = FRAMEWORKS[backend]() if backend in FRAMEWORKS else None
        self._before: set[Path] = set()
        self.running = False
        self.reason: str | None = None
        self.start_s = self.stop_s = 0.0

    def start(self) -> None:
        begin = perf_counter()
        self.reason = unsupported(self._backend) or unwritable(self._folder)
        if self._framework and self.reason is None:
            self._before = self._files()
            self.reason = self._attempt("start", partial(self._framework.start, self._folder))
            self.running = self.reason is None
        self.start_s = perf_counter() - begin

    def stop(self) -> None:
        """Stop the profiler and write the trace, if it is running."""
        if not (self._framework and self.running):
            return
        begin = perf_counter()
        self.running = False
        self.reason = self._attempt("stop", self._framework.stop)
        self.reason = self.reason or self._attempt("remove the host's name", self._remove_host)
        self.stop_s = perf_counter() - begin

    def file(self) -> str | None:
        """Return the written trace relative to the folder; None without one, with the reason in `reason`."""
        written = sorted(path for path in self._files() - self._before if path.stat().st_size)
        if not written and self.reason is None:
            self.reason = (
                "no trace was captured" if not self.stop_s else f"the profiler wrote nothing to {self._folder}"
            )
        return str(written[-1].relative_to(self._folder)) if written and self.reason is None else None

    def step(self, number: int) -> AbstractContextManager[Any]:
        """Return a context manager that marks one step in the trace."""
        return self._framework.step(number) if self._framework else nullcontext()

    def mark(self, name: str) -> None:
        """Write an event of zero length into the trace."""
        if self.running and self._framework:
            with self._framework.mark(name):
                return

    def _remove_host(self) -> None:
        for file in self._files() - self._before:
            if self._framework and file.stat().st_size:
                self._framework.remove_host(file)

    def _files(self) -> set[Path]:
        return set(self._folder.glob(self._framework.format.files)) if self._framework else set()

    def _attempt(self, what: str, action: Callable[[], None]) -> str | None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - frameworks raise various exceptions; none may end the training
            message = " ".join(f"{type(error).__name__}: {error}".split())
            return f"the profiler of {self._backend} did not {what}: {message}"
        return None


def unsupported(backend: str) -> str | None:
    """Return the reason why the backend cannot be traced; None if it can."""
    if backend not in FRAMEWORKS:
        return f"backend {backend} has no profiler"
    return None if find_spec(backend) else f"{backend} is not installed"


def unwritable(folder: Path) -> str | None:
    """Create the folder if needed; return the reason why no trace can be written to it, or None."""
    probe = folder / f".writable-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(bytes(4096))
        probe.unlink()
    except OSError as error:
        return f"the trace folder cannot be written: {error.strerror}: {folder}"
    return None
