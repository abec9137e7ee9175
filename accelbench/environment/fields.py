"""The environment record as a person reads it: each fact by its path in `run.json`, and its value in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel

from accelbench.profiling.machine.sizes import format_bytes
from accelbench.profiling.records.environment import Environment

Leaf = str | int | float | bool | list[str] | None

REASONS = "unknown"
"""The field of the environment that says why facts are unknown, and is none itself."""
ENDINGS = {"_mhz": "MHz", "_w": "W", "cpu_quota": "CPUs"}
"""The units of numbers by how the names of their facts end."""


@dataclass(frozen=True)
class LabelledValue:
    """Field of the environment as text, with its label and, if unknown, the reason."""

    label: str
    value: str | None
    """The value in words; None is unknown, which is not the same as none."""
    reason: str | None = None


def facts(environment: Environment) -> dict[str, Leaf]:
    """Return each fact by its dotted path, such as `gpus.0.name`; a list of plain values is one fact."""
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
    """Return enough of a commit to be found by, and whether the tree had more than that."""
    return f"{revision[:12]}{'-dirty' * revision.endswith('-dirty')}"


def in_words(fact: str, value: str | float | list[str]) -> str:
    """Return a known value as it is shown: `23.5 GiB`, `1,980 MHz`, `on`."""
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
