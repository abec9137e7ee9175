"""Attributes that odd nodes share and other nodes of the same hardware lack, by Fisher's exact test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from accelbench.fleet.observations import FleetData

SIGNIFICANCE = 0.05
"""Significance level, divided by the number of tested attributes (Bonferroni)."""
LEAST_ODD = 2
"""Minimum number of odd nodes with an attribute."""


@dataclass(frozen=True)
class SharedAttribute:
    """Attribute that odd nodes have more often than the others of their hardware."""

    machine: str
    attribute: str
    """Name and value: `cuda.driver=550.54`."""
    odd: int
    odd_total: int
    others: int
    others_total: int
    p: float
    """Corrected for the number of tested attributes."""

    @property
    def sentence(self) -> str:
        """Return the finding as text."""
        return self._sentence("", "=")

    def _sentence(self, of: str, sign: str) -> str:
        rest = f"{self.others:,} of {self.others_total:,} others"
        return f"{self.odd:,} of {self.odd_total:,} odd nodes{of} have {self.attribute} ({rest}; p {sign} {self.p:.1g})"


def sentences(shared: Sequence[SharedAttribute], groups: int) -> list[str]:
    """Return the findings of a fleet with this number of groups as text, one for each attribute."""
    if groups < 2:
        return [each.sentence for each in shared]
    found = []
    for attribute in dict.fromkeys(each.attribute for each in shared):
        parts = [each for each in shared if each.attribute == attribute]
        odd, odd_total, others, others_total = (
            sum(getattr(each, name) for each in parts) for name in ("odd", "odd_total", "others", "others_total")
        )
        several = len(parts) > 1
        of = f" in {len(parts)} groups" if several else f" of {parts[0].machine}"
        joined = SharedAttribute("", attribute, odd, odd_total, others, others_total, max(each.p for each in parts))
        found.append(joined._sentence(of, "≤" if several else "="))
    return found


def shared_attributes(data: FleetData, odd: Mapping[str, Collection[str]]) -> list[SharedAttribute]:
    """Return the attributes that the odd nodes share, most significant first; `odd` has the odd nodes by hardware."""
    from scipy.stats import fisher_exact  # costs a second to import

    tables: list[SharedAttribute] = []
    for machine in sorted(odd):
        nodes = {node: found for (of, node), found in data.attributes.items() if of == machine}
        chosen = set(odd[machine])
        counts: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        for node, attributes in nodes.items():
            names = [f"{name}={value}" for name, values in attributes.items() for value in values]
            counts[node in chosen].update(names)
        total, rest = len(chosen), len(nodes) - len(chosen)
        for name in sorted(counts[True]):
            have, others = counts[True][name], counts[False][name]
            if have >= LEAST_ODD and have + others < total + rest:
                table = [[have, total - have], [others, rest - others]]
                p = float(fisher_exact(table, alternative="greater").pvalue)
                tables.append(SharedAttribute(machine, name, have, total, others, rest, p))
    found = [
        SharedAttribute(**{**vars(each), "p": min(1.0, each.p * len(tables))})
        for each in tables
        if each.p * len(tables) <= SIGNIFICANCE
    ]
    return sorted(found, key=lambda each: (each.p, each.machine, each.attribute))
