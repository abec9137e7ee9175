"""A framework's profiler with error handling: start, stop, and the file that it wrote."""

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
    """One framework's profiler, started and stopped at most once; `reason` says what went wrong with it, if anything.

    Whatever a profiler raises is a reason, not an error: it must not end the measurement that it watches.
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
        """Stop and write, if it runs."""
        if not (self._framework and self.running):
            return
        begin = perf_counter()
        self.running = False
        self.reason = self._attempt("stop", self._framework.stop)
        self.reason = self.reason or self._attempt("leave out the host's name", self._forget_host)
        self.stop_s = perf_counter() - begin

    def file(self) -> str | None:
        """Return the trace that was written, within the folder; None, and a reason, where there is none."""
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
        """Write an event of no length into the trace."""
        if self.running and self._framework:
            with self._framework.mark(name):
                return

    def _forget_host(self) -> None:
        for file in self._files() - self._before:
            if self._framework and file.stat().st_size:
                self._framework.forget_host(file)

    def _files(self) -> set[Path]:
        return set(self._folder.glob(self._framework.format.files)) if self._framework else set()

    def _attempt(self, what: str, action: Callable[[], None]) -> str | None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - each framework raises its own kinds, and none may end the training
            said = " ".join(f"{type(error).__name__}: {error}".split())
            return f"the profiler of {self._backend} did not {what}: {said}"
        return None


def unsupported(backend: str) -> str | None:
    """Return why that backend cannot be traced."""
    if backend not in FRAMEWORKS:
        return f"no profiler of {backend} is known"
    return None if find_spec(backend) else f"{backend} is not installed"


def unwritable(folder: Path) -> str | None:
    """Return why no trace can be written to the folder, which is made if it is not there."""
    probe = folder / f".writable-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(bytes(4096))
        probe.unlink()
    except OSError as error:
        return f"the trace folder cannot be written: {error.strerror}: {folder}"
    return None
