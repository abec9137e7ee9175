"""Unique labels of runs that are shown together: the run's name, else its node, else its directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from accelbench.execution.store import RunInfo
from accelbench.profiling.records.stored import readable

NODE_TAG = "node="
"""Tag of a run with the name of its node, as in `accelbench run --tag node=n17`."""

LocatedRun = tuple[RunInfo, Path | None]
"""Content of `run.json`, and the run's directory if it has one."""


def label_runs(runs: Sequence[LocatedRun]) -> tuple[str, ...]:
    """Return a unique label for each run: its name (`--name`), else its node, else the name of its directory.

    Equal labels are followed by the directory, and by the run's ID if the directories are equal, too; copies of one run
    by their position. Runs without name and node, each of another kind of device, are labelled by the device.
    """
    given = [info.label.name or node_of(info) for info, _ in runs]
    devices: list[str] = [info.device for info, _ in runs]
    if not any(given) and len({*devices}) == len(runs):
        return tuple(devices)
    directories = [_directory(info, path) for info, path in runs]
    labels = [name or directory for name, directory in zip(given, directories, strict=True)]
    for words in (directories, [info.run_id for info, _ in runs]):
        _extend_equal(labels, words)
    while len({*labels}) < len(labels):
        _extend_equal(labels, [str(number) for number in range(1, len(runs) + 1)])
    return tuple(labels)


def node_of(info: RunInfo) -> str:
    """Return the node that the run's tag `node=` names; empty without such a tag."""
    return next((tag.removeprefix(NODE_TAG) for tag in info.label.tags if tag.startswith(NODE_TAG)), "")


def _extend_equal(labels: list[str], words: Sequence[str]) -> None:
    """Append the run's word, in parentheses, to labels that several runs have."""
    equal = {label for label in labels if labels.count(label) > 1}
    for number, label in enumerate(labels):
        if label in equal and label != words[number]:
            labels[number] = f"{label} ({words[number]})"


def _directory(info: RunInfo, path: Path | None) -> str:
    return readable(path.resolve().name) if path else info.run_id
