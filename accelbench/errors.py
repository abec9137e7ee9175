"""Errors that end a command with one line of advice, and the warning about corrupt stored data."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class UserError(Exception):
    """Wrong use of the command, or a missing device or package: exit status 2."""

    exit_status = 2


class RunBroken(UserError):
    """A run that cannot continue (a full disk, for example); the message names what is kept: exit status 1."""

    exit_status = 1


class DataDamaged(UserError):
    """Stored data that cannot be read: exit status 1."""

    exit_status = 1


class Interrupted(UserError):
    """A run that was ended early, by Ctrl-C or a scheduler, and can be resumed: exit status 130."""

    exit_status = 130


class Damage(UserWarning):
    """A corrupt part of a stored run, which was left out."""


def tell_damage(reason: str) -> None:
    """Warn that a part of the stored data is corrupt and was left out."""
    warnings.warn(reason, Damage, stacklevel=3)


@contextmanager
def damage_met() -> Iterator[dict[str, None]]:
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
