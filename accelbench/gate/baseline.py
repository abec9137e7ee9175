"""Baseline: medians and spreads of good nodes with the limits derived from them, as a TOML file to edit by hand."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, ValidationError, model_validator

from accelbench.errors import UserError, reason_of
from accelbench.gate.hardware import HardwareClass
from accelbench.profiling.files import read_toml, replace_file
from accelbench.profiling.records.stored import Finite, Positive, Several, Stored, first_fault
from accelbench.profiling.records.work import MainMetric

BASELINE_VERSION: Final = 1
NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
RULE = re.compile(rf"(?:(?P<factor>{NUMBER})\s*\*\s*)?median(?:\s*(?P<sign>[+-])\s*(?P<mads>{NUMBER})\s*\*\s*mad)?")
HEAD = """\
# Baseline of good nodes, written by 'accelbench baseline' and applied by 'accelbench gate --baseline FILE'.
# Limits (min for rates, max for times; warn for a warning only) are a number or a rule: "0.95 * median",
# "median - 4 * mad". To exempt a rate from the gate, set min = 0.
"""
Rule = Annotated[str, Field(max_length=100)] | Annotated[Finite, Field(ge=0)]


class BaselineMetric(Stored):
    """Metric of good nodes: its robust centre and spread, and its limits."""

    point: str
    """Name of the benchmark's point, as in reports."""
    figure: MainMetric
    unit: str
    median: Positive
    mad: Annotated[Finite | None, Field(ge=0)] = None
    """Median absolute deviation between runs, in `unit`; missing for a single run."""
    runs: Several
    min: Rule | None = None
    """Lowest value of a fit node, for a rate."""
    max: Rule | None = None
    """Highest value of a fit node, for a time."""
    warn: Rule | None = None
    """Value that is worth a warning, between the limit and the median."""

    @property
    def limit(self) -> float:
        """Return the lowest value of a fit node; for a time, the highest."""
        found = self.max if self.figure == "time" else self.min
        assert found is not None  # validated
        return self._resolve(found)

    @property
    def warn_limit(self) -> float | None:
        """Return the value below which (for a time, above which) the gate warns."""
        return None if self.warn is None else self._resolve(self.warn)

    def _resolve(self, rule: str | float) -> float:
        if not isinstance(rule, str):
            return rule
        found = RULE.fullmatch(rule.strip())
        if found is None:
            raise ValueError(f"unknown rule {rule!r} (examples: 0.95 * median, median - 4 * mad, or a number)")
        value = float(found["factor"] or 1) * self.median
        if found["mads"]:
            if self.mad is None:
                raise ValueError(f"the rule {rule!r} needs mad, which is missing")
            value += float(f"{found['sign']}{found['mads']}") * self.mad
        return value

    @model_validator(mode="after")
    def _consistent(self) -> BaselineMetric:
        """Raise ValueError for a missing or unknown limit, and for one that half of the good nodes would not meet."""
        is_time = self.figure == "time"
        wanted, other = ("max", self.min) if is_time else ("min", self.max)
        if (self.max if is_time else self.min) is None or other is not None:
            raise ValueError(f"{self.point}: a metric of kind {self.figure} needs {wanted}, and nothing else")
        limits = [self.limit] + ([] if self.warn_limit is None else [self.warn_limit])
        for value in limits:
            if not math.isfinite(value) or value < 0 or (value < self.median if is_time else value > self.median):
                side = "above" if value > self.median else "below"
                raise ValueError(
                    f"{self.point}: the limit {value:.6g} {self.unit} is {side} the median {self.median:.6g}, so that "
                    "half of the good nodes would not meet it"
                )
        return self


class BaselineHardware(HardwareClass):
    """Hardware class with its metrics."""

    metric: list[BaselineMetric]


class Baseline(Stored):
    """Content of a baseline file."""

    baseline_version: Literal[1]
    created: str
    accelbench: str
    hardware: list[BaselineHardware]

    def of_machine(self, machine: str) -> BaselineHardware | None:
        """Return the hardware class with this fingerprint."""
        return next((each for each in self.hardware if each.machine == machine), None)

    @model_validator(mode="after")
    def _unique(self) -> Baseline:
        names = [each.machine for each in self.hardware]
        points = [(each.machine, metric.point) for each in self.hardware for metric in each.metric]
        if not names or len(set(names)) < len(names) or len(set(points)) < len(points):
            raise ValueError("each hardware class, and each of its points, must occur once")
        return self


def read_baseline(path: Path) -> Baseline:
    """Return the baseline of a file; raise UserError with the first fault."""
    try:
        return Baseline.model_validate(read_toml(path))
    except ValidationError as error:
        raise UserError(f"{path}: {first_fault(error)}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {reason_of(error)}") from None


def write_baseline(baseline: Baseline, path: Path) -> None:
    """Write the baseline as TOML; raise UserError if the file exists, since it may have been edited by hand."""
    if path.exists():
        raise UserError(f"{path} exists: choose another --out, or delete it")
    tables = [f"{HEAD}{_table(baseline.model_dump(exclude={'hardware'}))}"]
    for hardware in baseline.hardware:
        tables.append(f"[[hardware]]\n{_table(hardware.model_dump(exclude={'metric'}, exclude_none=True))}")
        for metric in hardware.metric:
            tables.append(f"[[hardware.metric]]\n{_table(metric.model_dump(exclude_none=True))}")
    text = "\n".join(tables)
    try:
        replace_file(path, lambda new: new.write_text(text, encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot write {path}: {reason_of(error)}") from None


def _table(values: Mapping[str, object]) -> str:
    return "".join(f"{name} = {_written(value)}\n" for name, value in values.items())


def _written(value: object) -> str:
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{json.dumps(name, ensure_ascii=False)} = {_written(of)}" for name, of in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    return json.dumps(value, ensure_ascii=False)
