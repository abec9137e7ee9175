"""Errors that end a command with one line of advice, and the warning for corrupt stored data."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelbench.profiling.machine.packages import install_extra


class UserError(Exception):
    """Usage error, or a missing device or package: exit status 2."""

    exit_status = 2


class RunBroken(UserError):
    """Run that cannot continue, for example because of a full disk: exit status 1."""

    exit_status = 1


class DataDamaged(UserError):
    """Corrupt or unreadable stored data: exit status 1."""

    exit_status = 1


class Interrupted(UserError):
    """Run that was ended by Ctrl-C or a scheduler and can be resumed: exit status 130."""

    exit_status = 130


class Damage(UserWarning):
    """Warning for a corrupt part of a stored run, which is left out."""


def missing_package(name: str) -> str:
    """Return the message about a package that this Python lacks, with the command that installs or finds it."""
    lacking = f"the package {name} is not installed in this Python ({sys.executable})"
    checkout = Path(__file__).absolute().parents[1]
    made = checkout / ".venv"  # by make
    if (made / "bin" / "accelbench").exists() and os.path.realpath(made) != os.path.realpath(sys.prefix):
        folder = shlex.quote(os.path.relpath(made) if checkout == Path.cwd() else str(made))
        return f"{lacking}: use {folder}/bin/accelbench, or run 'source {folder}/bin/activate' first"
    if (checkout / "Makefile").exists():
        return f"{lacking}: run 'make install' in {checkout}, or \"pip install '.[cpu]'\" there"
    return f"{lacking}: {install_extra('cpu')}"


def reason_of(error: Exception) -> str:
    """Return the operating system's message of an `OSError` without number and path, or the error as text."""
    return getattr(error, "strerror", None) or str(error)


def report_damage(reason: str) -> None:
    """Issue a `Damage` warning with the given reason."""
    warnings.warn(reason, Damage, stacklevel=3)


@contextmanager
def collect_damage() -> Iterator[dict[str, None]]:
    """Yield the reasons of all `Damage` warnings in this block, each once and in order, instead of printing them."""
    reasons: dict[str, None] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("always", Damage)
        show = warnings.showwarning

        def keep(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, Damage):
                reasons[str(message)] = None
            else:
                show(message, category, *where, **more)

        warnings.showwarning = keep
        yield reasons
