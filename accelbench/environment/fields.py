"""Environment records as text: each field by its path in `run.json`, with its formatted value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel

from accelbench.profiling.records.environment import Environment
from accelbench.profiling.text import format_bytes

Leaf = str | int | float | bool | list[str] | None

REASONS = "unknown"
"""Field of the environment with the reasons of unknown values; not a value itself."""
ENDINGS = {"_mhz": "MHz", "_w": "W", "cpu_quota": "CPUs"}
"""Units of numbers by the ending of the field's name."""


@dataclass(frozen=True)
class LabelledValue:
    """Field of the environment as text, with its label and, if unknown, the reason."""

    label: str
    value: str | None
    """Formatted value; None if unknown, which differs from "none"."""
    reason: str | None = None


def facts(environment: Environment) -> dict[str, Leaf]:
    """Return each field by its dotted path, such as `gpus.0.name`; a list of plain values is one field."""
    return dict(_leaves(environment))


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, Leaf]]:
    if isinstance(value, BaseModel):
        items = [(name, getattr(value, name)) for name in type(value).model_fields]
    elif isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list) and any(isinstance(item, BaseModel) for item in value):
        items = [(str(index), item) for index, item in enumerate(value)]
    elif isinstance(value, list):
        if value:
            yield path, [str(item) for item in value]
        return
    elif value is None or isinstance(value, str | int | float):
        yield path, value
        return
    else:
        raise TypeError(f"{path} of the environment is a {type(value).__name__}")
    for name, item in items:
        if path or name != REASONS:
            yield from _leaves(item, f"{path}.{name}" if path else name)


def short_revision(revision: str) -> str:
    """Return the first 12 digits of a commit, and `-dirty` for an uncommitted change."""
    return f"{revision[:12]}{'-dirty' * revision.endswith('-dirty')}"


def in_words(fact: str, value: str | float | list[str]) -> str:
    """Return the formatted value: `23.5 GiB`, `1,980 MHz`, `on`."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, str):
        return short_revision(value) if fact.endswith("revision") else value
    if fact.endswith("_bytes"):
        return format_bytes(value)
    unit = next((unit for ending, unit in ENDINGS.items() if fact.endswith(ending)), None)
    return f"{value:,.0f} {unit}" if unit == "MHz" else f"{value:g} {unit}" if unit else f"{value:g}"
