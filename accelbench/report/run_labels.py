"""A short name for each of several runs: its device, and what tells it from the other runs of that device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accelbench.environment.differences import TOLERANCE
from accelbench.profiling.records.environment import Environment, System
from accelbench.report.stored_run import Run

SAME_HOST = ("model", "architecture", "sockets", "cores", "logical")
"""The facts of the CPU that are those of the host, whatever a container is granted of it."""


def label_runs(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return for each run a label of its own: `cpu`, `gpu of host 2`, `cpu seed 7`; its id where all else fails."""
    found = [run.info.device for run in runs]
    for words in _telling(runs):
        for alike in _alike(found):
            if len({words[number] for number in alike}) > 1:
                for number in alike:
                    found[number] = f"{found[number]} {words[number]}"
    for alike in _alike(found):
        for number in alike:
            found[number] = f"{runs[number].info.device} {runs[number].info.run_id}"
    return tuple(found)


def _alike(labels: Sequence[str]) -> list[list[int]]:
    """Return the numbers of the runs that have one label, a list for each label that several have."""
    numbers: dict[str, list[int]] = {}
    for number, label in enumerate(labels):
        numbers.setdefault(label, []).append(number)
    return [alike for alike in numbers.values() if len(alike) > 1]


def _telling(runs: Sequence[Run]) -> Iterator[list[str]]:
    """Yield what may tell runs of one device apart, in words to stand after the device, the most telling first."""
    yield _hosts([run.info.environment for run in runs])
    yield [_container(run.info.environment.system) for run in runs]
    yield [_frameworks(run) for run in runs]
    yield [f"suite {run.info.suite}" if run.info.suite else "no suite" for run in runs]
    yield [f"seed {run.info.settings.seed}" for run in runs]
    yield [f"on {run.info.created:%Y-%m-%d}" for run in runs]


def _hosts(machines: Sequence[Environment]) -> list[str]:
    """Return a number, in words, for each machine; those that may be one have the same."""
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
    """Tell whether both may be one machine: what is known of both CPUs and memories agrees, and so do the cards seen.

    A container may hide what the machine has, and some of its cards.
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
