"""Differences between the environments and settings of runs, and which of them may explain a result."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pydantic import BaseModel

from accelbench.environment.fields import Leaf, facts, in_words
from accelbench.profiling.devices import gpu_backends
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Device

MATTERS = (
    "gpus",
    "cuda.*",
    "gpus.*",
    "tpus.*",
    "cpu.model",
    "cpu.governor",
    "cpu.frequency_mhz",
    "cpu.usable",
    "cpu.affinity",
    "cpu.one_core_kind",
    "cpu.kinds.*",
    "cpu.isa",
    "limits.cpu_quota",
    "memory.channels",
    "memory.huge_pages",
    "software.blas",
    "software.threads.*",
    "software.settings.*",
    "software.libraries.*",
    "software.python",
    "software.accelbench",
    "software.revision",
)
"""Fields that change the speed, in the order of their output."""
OF_GPUS = (
    *("gpus", "cuda.*", "gpus.*"),
    *(f"software.libraries.{name}" for gpu in gpu_backends() for name in gpu.package_patterns),
    *(f"software.settings.{name}" for gpu in gpu_backends() for name in gpu.setting_patterns),
)
"""Fields that matter only if a GPU is measured: the cards, and their packages and settings."""
IDENTITY = "gpus.*.uuid_hash"
"""Field that identifies a card; another card of the same model explains nothing."""
MOMENTARY = ("memory.available_bytes", "cpu.bandwidths.*")
"""Fields that differ between runs on the same machine."""
OWN_SHARE = ("cpu.affinity", "cpu.usable", "cpu.one_core_kind", "software.blas")
"""Fields that differ between ranks of one host: each rank has its own cores and loaded libraries."""
TOLERANCE = {"cpu.frequency_mhz": 0.05, "memory.total_bytes": 0.01}
"""Relative tolerances of values that vary between readings, such as the current clock."""


@dataclass(frozen=True)
class Difference:
    """Field of the environment (its path in `run.json`) that differs between two runs."""

    fact: str
    a: str
    b: str
    matters: bool


def differences(a: Environment, b: Environment, devices: Collection[Device]) -> tuple[Difference, ...]:
    """Return every differing field, those that matter for the measured devices first."""
    paired = min(len(a.gpus), len(b.gpus))
    facts_a, facts_b = _all_facts(a, paired), _all_facts(b, paired)
    found = [
        Difference(
            fact,
            *_texts(fact, facts_a.get(fact), facts_b.get(fact), a, b),
            _rank(fact, devices) < len(MATTERS),
        )
        for fact in dict.fromkeys((*facts_a, *facts_b))
        if not _equal(fact, facts_a.get(fact), facts_b.get(fact))
    ]
    return tuple(sorted(found, key=lambda difference: (not difference.matters, _rank(difference.fact, devices))))


def rank_differences(first: Environment, other: Environment, device: Device) -> Iterator[str]:
    """Yield, as text, how the libraries and devices of another rank differ from rank 0."""
    for difference in differences(first, other, {device}):
        if difference.matters and difference.fact not in OWN_SHARE:
            yield f"{difference.fact} is {difference.b}, not {difference.a}"


def settings_text(settings: Sequence[BaseModel]) -> list[str]:
    """Return the settings that differ between these runs, one text each: name and values, such as `rounds 3 / 5`."""
    return [f"{name} {' / '.join(values)}" for name, values in different_settings(settings).items()]


def different_settings(settings: Sequence[BaseModel]) -> dict[str, list[str]]:
    """Return the settings that differ between these runs, each with its distinct values as text."""
    values = {name: dict.fromkeys(getattr(one, name) for one in settings) for name in type(settings[0]).model_fields}
    return {
        name.removesuffix("_s").replace("_", " "): [_setting(value) for value in found]
        for name, found in values.items()
        if len(found) > 1
    }


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def same_machine(a: Environment, b: Environment) -> bool:
    """Return whether both environments are of one machine: the same CPU model and the same cards."""
    return (a.cpu.model, [gpu.uuid_hash for gpu in a.gpus]) == (b.cpu.model, [gpu.uuid_hash for gpu in b.gpus])


def _all_facts(environment: Environment, paired: int) -> dict[str, Leaf]:
    """Return the fields by path; details of a card only if the other run has a card at that index."""
    names = ", ".join(gpu.name for gpu in environment.gpus) or None
    alike = environment.model_copy(update={"gpus": environment.gpus[:paired]})
    details = facts(alike).items()
    return {"gpus": names} | {
        f: value for f, value in details if not any(fnmatchcase(f, p) for p in (*MOMENTARY, "gpus.*.name"))
    }


def _equal(fact: str, a: Leaf, b: Leaf) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return set(a) == set(b)
    tolerance = TOLERANCE.get(fact)
    if tolerance and isinstance(a, int | float) and isinstance(b, int | float):
        return abs(a - b) <= tolerance * max(a, b)
    return a == b or _same_parts(a, b)


def _same_parts(a: Leaf, b: Leaf) -> bool:
    """Return whether two texts have the same parts in another order, and no two parts set the same variable.

    Parts are separated by commas if there are any, otherwise by spaces.
    """
    if not isinstance(a, str) or not isinstance(b, str):
        return False
    between = "," if "," in a else None
    parts, others = (sorted(part.strip() for part in text.split(between)) for text in (a, b))
    return parts == others and len({part.partition("=")[0] for part in parts}) == len(parts)


def _rank(fact: str, devices: Collection[Device]) -> int:
    """Return the index of the field in `MATTERS`, or the length of `MATTERS` if the field does not matter."""
    if fnmatchcase(fact, IDENTITY) or ("gpu" not in devices and any(fnmatchcase(fact, p) for p in OF_GPUS)):
        return len(MATTERS)
    return next((rank for rank, pattern in enumerate(MATTERS) if fnmatchcase(fact, pattern)), len(MATTERS))


def _texts(fact: str, a: Leaf, b: Leaf, in_a: Environment, in_b: Environment) -> tuple[str, str]:
    """Return both values as text; of two lists, the items that the other list lacks."""
    if isinstance(a, list) and isinstance(b, list):
        return _surplus(a, b), _surplus(b, a)
    return _value(fact, a, in_a), _value(fact, b, in_b)


def _surplus(mine: Sequence[str], other: Sequence[str]) -> str:
    return ", ".join(item for item in mine if item not in other) or "nothing more"


def _value(fact: str, value: Leaf, environment: Environment) -> str:
    if value is not None:
        return in_words(fact, value)
    reason = environment.unknown.get(fact)
    return f"unknown: {reason}" if reason else "none"
