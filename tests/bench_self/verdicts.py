"""The verdicts on trainings that are held back by a known thing each, on each framework."""

from __future__ import annotations

from importlib.util import find_spec

from rich.console import Console

from accelbench.profiling.records.bottleneck import Bottleneck
from tests.bench_self.bounds import Bound
from tests.fixtures.verdict_cases import CASES, Case, Impossible, verdict

BACKENDS = ("tensorflow", "jax", "torch")


def verdicts_on_known_cases(console: Console) -> list[Bound]:
    """Each case's verdict beside what was built in; a case that this machine cannot have is named."""
    bounds = []
    for backend in BACKENDS:
        if find_spec(backend) is None:
            console.print(f"{backend} is not installed: it is not judged")
            continue
        judgements = []
        for case in CASES:
            try:
                found = verdict(case, backend)
            except Impossible as reason:
                console.print(f"{case.name}, {backend}: not possible here: {reason}")
                continue
            judgements.append(judgement(case, found))
            said = " and ".join([found.bound, *found.beside]) if found.bound else "unknown"
            console.print(f"{case.name}, {backend}: {said}: {judgements[-1]}")
            for sentence in found.evidence:
                console.print(f"    {sentence}")
        wrong = float(judgements.count("wrong"))
        bounds.append(Bound(f"wrong verdicts on {backend}", f"of {len(judgements)}", at_most=0, found=[wrong]))
    return bounds


def judgement(case: Case, found: Bottleneck) -> str:
    """Return whether the verdict is right, undecided, or wrong.

    An undecided one names nothing, or what is right beside another cause. A machine with other work on it makes any
    training one that waits for CPUs; that is said of it, and no mistake.
    """
    if found.bound in case.right and set(found.beside) <= set(case.right):
        return "right"
    if found.bound is None or {found.bound, *found.beside} & set(case.right):
        return "undecided"
    if found.bound == "cpu-contended" and found.cpu is not None and found.cpu.waited > 0.5:
        return "undecided: the machine was loaded"
    return "wrong"
