"""Damage among what is stored: the rest is shown, and the damage is told in the end, and by the exit status."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Damage(UserWarning):
    """A part of a run cannot be read, and was left out."""


def tell_damage(reason: str) -> None:
    """Tell whoever asked for the data that a part of it cannot be read."""
    warnings.warn(reason, Damage, stacklevel=3)


@contextmanager
def damage_met() -> Iterator[dict[str, None]]:
    """Yield the reasons of all damage that is met within this block, each once and in order, instead of showing it."""
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
