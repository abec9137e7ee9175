"""Labels of runs in a joint report: the device, and distinguishing facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accelbench.environment.differences import TOLERANCE
from accelbench.profiling.records.environment import Environment, System
from accelbench.report.stored_run import Run

SAME_HOST = ("model", "architecture", "sockets", "cores", "logical")
"""Facts of the CPU that do not depend on a container's limits."""


def label_runs(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return a unique label for each run: `cpu`, `gpu of host 2`, `cpu seed 7`; with its id if nothing else differs."""
    found = [run.info.device for run in runs]
    for words in _distinctions(runs):
        for alike in _alike(found):
            if len({words[number] for number in alike}) > 1:
                for number in alike:
                    found[number] = f"{found[number]} {words[number]}"
    for alike in _alike(found):
        for number in alike:
            found[number] = f"{runs[number].info.device} {runs[number].info.run_id}"
    return tuple(found)


def _alike(labels: Sequence[str]) -> list[list[int]]:
    """Return the indices of the runs with equal labels, a list for each such label."""
    numbers: dict[str, list[int]] = {}
    for number, label in enumerate(labels):
        numbers.setdefault(label, []).append(number)
    return [alike for alike in numbers.values() if len(alike) > 1]


def _distinctions(runs: Sequence[Run]) -> Iterator[list[str]]:
    """Yield lists of suffixes, one for each run, that may distinguish runs of one device, the most important first."""
    yield _hosts([run.info.environment for run in runs])
    yield [_container(run.info.environment.system) for run in runs]
    yield [_frameworks(run) for run in runs]
    yield [f"suite {run.info.suite}" if run.info.suite else "no suite" for run in runs]
    yield [f"seed {run.info.settings.seed}" for run in runs]
    yield [f"on {run.info.created:%Y-%m-%d}" for run in runs]


def _hosts(machines: Sequence[Environment]) -> list[str]:
    """Return `of host N` for each machine; machines that may be the same have the same number."""
    hosts: list[list[Environment]] = []
    words = []
    for machine in machines:
        fitting = (n for n, members in enumerate(hosts) if all(_same_host(machine, member) for member in members))
        number = next(fitting, len(hosts))
        if number == len(hosts):
            hosts.append([])
        hosts[number].append(machine)
        words.append(f"of host {number + 1}")
    return words


def _same_host(a: Environment, b: Environment) -> bool:
    """Return whether both may be one machine: known facts of CPU and memory agree, and visible GPUs overlap.

    A container may hide facts and GPUs of its host.
    """
    known = [(getattr(a.cpu, fact), getattr(b.cpu, fact)) for fact in SAME_HOST]
    sizes = sorted((a.memory.total_bytes, b.memory.total_bytes))
    cards_a, cards_b = ({gpu.uuid_hash for gpu in one.gpus} for one in (a, b))
    return (
        all(one == other for one, other in known if one is not None and other is not None)
        and sizes[1] - sizes[0] <= TOLERANCE["memory.total_bytes"] * sizes[1]
        and (not cards_a or not cards_b or bool(cards_a & cards_b))
    )


def _container(system: System) -> str:
    image = f" {system.image.removeprefix('sha256:')[:8]}" if system.image else ""
    return f"in {system.container}{image}" if system.container else "outside containers"


def _frameworks(run: Run) -> str:
    backends = dict.fromkeys(point.backend for point in run.info.plan if point.backend)
    return " ".join(backends) or "without frameworks"
