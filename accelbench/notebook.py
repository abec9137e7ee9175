"""IPython extension: the cell magic `%%diagnose`, after `%load_ext accelbench`."""

from __future__ import annotations

import argparse
import linecache
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelbench.diagnosis import answer, new_store
from accelbench.output.console import say
from accelbench.output.plain_text import one_line
from accelbench.profiling.attach import session as attached
from accelbench.profiling.attach.begin import begin
from accelbench.profiling.measure.script.launch import exchange_folder
from accelbench.profiling.measure.script.observe import ScriptObserver
from accelbench.settings.limits import MOST_SECONDS

ATTACHED = "_accelbench_attach.session"
"""Name under which `accelbench.steps` finds the session."""
CELL = "cell.py"
"""File name of the cell's code in the answer."""


def register(shell: Any) -> None:
    """Register `%%diagnose` in an IPython shell."""
    shell.register_magic_function(lambda line, cell: diagnose_cell(shell, line, cell), "cell", "diagnose")


def diagnose_cell(shell: Any, line: str, cell: str) -> None:
    """Run a cell, and print what limits its training loop, as `accelbench diagnose` does for a script.

    Options: `--seconds N` of untouched steps (default 10), `--no-experiments`. Functions that JAX compiled in earlier
    cells are not observed.
    """
    try:
        seconds, experiments = parse_options(line)
    except ValueError as error:
        say(f"accelbench: %%diagnose {line}: {error} (options: --seconds N, --no-experiments)", stderr=True)
        return
    with exchange_folder() as exchange:
        file = exchange / CELL
        file.write_text(cell, encoding="utf-8")
        code = compile(shell.transform_cell(cell), str(file), "exec")
        # Errors of the cell show its lines.
        linecache.cache[str(file)] = len(cell), None, cell.splitlines(keepends=True), str(file)
        ended = threading.Event()
        store = new_store(None, ["python", CELL])
        observer = ScriptObserver(lambda: not ended.is_set(), exchange, store.path, seconds, experiments)

        def observe() -> None:
            try:
                observer.observe()
                answer(store, observer, "cell")
            except Exception as error:  # noqa: BLE001 - no error of the diagnosis may end the cell
                say(f"accelbench: the diagnosis failed: {one_line(f'{type(error).__name__}: {error}')}", stderr=True)

        with observed_here(exchange):
            observer.events.read()
            observer.events.roots.append(str(exchange))
            thread = threading.Thread(target=observe, daemon=True)
            thread.start()
            try:
                exec(code, shell.user_ns)
            finally:
                ended.set()
                thread.join()
    store.close()


def parse_options(line: str) -> tuple[float, bool]:
    """Return the seconds of untouched steps, and whether experiments are permitted; raise ValueError if invalid."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--no-experiments", action="store_true")
    try:
        options, others = parser.parse_known_args(shlex.split(line))
    except argparse.ArgumentError as error:
        raise ValueError(str(error)) from None
    if others:
        raise ValueError(f"unknown option {others[0]}")
    if not 1 <= options.seconds <= MOST_SECONDS:
        raise ValueError(f"--seconds must be 1 to {MOST_SECONDS:,}")
    return options.seconds, not options.no_experiments


@contextmanager
def observed_here(exchange: Path) -> Iterator[None]:
    """Observe the steps of this process."""
    sys.modules[ATTACHED] = attached
    begin(str(exchange))
    session = attached.Session.current
    assert session is not None
    try:
        yield
    finally:
        session.detach()
        attached.Session.current = None
        del sys.modules[ATTACHED]
