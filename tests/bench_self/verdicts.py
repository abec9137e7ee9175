"""Verdicts on training workloads with a known bottleneck each, on each framework."""

from __future__ import annotations

from importlib.util import find_spec

from rich.console import Console

from accelbench.profiling.records.bottleneck import Bottleneck
from accelbench.profiling.records.bottleneck import Bound as VerdictBound
from tests.bench_self.bounds import Bound
from tests.fixtures.verdict_cases import CASES, Impossible, verdict

BACKENDS = ("tensorflow", "jax", "torch")


def verdicts_on_known_cases(console: Console) -> list[Bound]:
    """Return the number of wrong verdicts on each framework; impossible cases are reported on the console."""
    bounds = []
    for backend in BACKENDS:
        if find_spec(backend) is None:
            console.print(f"{backend} is not installed: not tested")
            continue
        judgements = []
        for case in CASES:
            try:
                found = verdict(case, backend)
            except Impossible as reason:
                console.print(f"{case.name}, {backend}: not possible on this machine: {reason}")
                continue
            judgements.append(judgement(case.right, found))
            verdicts = " and ".join([found.bound, *found.beside]) if found.bound else "unknown"
            console.print(f"{case.name}, {backend}: {verdicts}: {judgements[-1]}")
            for text in found.evidence:
                console.print(f"    {text}")
        wrong = float(judgements.count("wrong"))
        bounds.append(Bound(f"wrong verdicts on {backend}", f"of {len(judgements)}", at_most=0, found=[wrong]))
    return bounds


def judgement(correct: tuple[VerdictBound, ...], found: Bottleneck) -> str:
    """Return whether the verdict is right, undecided, or wrong.

    An undecided verdict is unknown, or contains the right bound among others. On a loaded machine every training is
    `cpu-contended`, which is undecided, too.
    """
    if found.bound in correct and set(found.beside) <= set(correct):
        return "right"
    if found.bound is None or {found.bound, *found.beside} & set(correct):
        return "undecided"
    if found.bound == "cpu-contended" and found.cpu is not None and found.cpu.waited > 0.5:
        return "undecided: the machine was loaded"
    return "wrong"
