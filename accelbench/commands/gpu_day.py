"""Command `gpu-day`: all measurements of a GPU in stages."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from accelbench.commands import BoundedNumber, console
from accelbench.errors import UserError
from accelbench.settings.limits import MOST_MIB, MOST_SECONDS


@click.command()
@click.option("--stages", metavar="A,B", help="Only these stages, in this order. Default: all.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs/gpu-day"),
    show_default=True,
    help="Output directory. An existing one is resumed.",
)
@click.option(
    "--budget",
    type=BoundedNumber(120, MOST_SECONDS),
    metavar="SECONDS",
    help="Total time; results have priority over tests.",
)
@click.option("--limit", "limits", multiple=True, metavar="STAGE=SECONDS", help="Time limit of a stage.")
@click.option(
    "--suite", "suites", multiple=True, metavar="STAGE=NAME|FILE", help="Suite of a stage, instead of the default."
)
@click.option("--again", multiple=True, metavar="STAGE", help="Repeat a finished stage.")
@click.option(
    "--part-size",
    type=BoundedNumber(0.01, MOST_MIB),
    metavar="MIB",
    help="Split the bundle into files of at most this size.",
)
def command(
    stages: str | None,
    out: Path,
    budget: float | None,
    limits: tuple[str, ...],
    suites: tuple[str, ...],
    again: tuple[str, ...],
    part_size: float | None,
) -> int:
    """Measure this GPU in half an hour or in a time budget: probe, tests, kernels, training workloads, sanitizer.

    Repeat the command to resume after a time limit, Ctrl-C or a crash. It prints a table and writes a bundle of all
    runs. Exit status 1 if a stage failed or is unfinished, 2 if there is no GPU.
    """
    from accelbench.execution.cluster import find_cluster
    from accelbench.gpu_day.day import DayOptions, run_day
    from accelbench.gpu_day.stages import DayPlan

    if cluster := find_cluster(os.environ):
        raise UserError(
            f"gpu-day needs a single process, and {cluster.launcher} started {cluster.size}: use srun --ntasks=1"
        )
    options = DayOptions(
        stages=[name.strip() for name in stages.split(",")] if stages else (),
        budget=budget,
        limits={stage: _seconds(text) for stage, text in _pairs(limits, "--limit")},
        again=again,
        part_mib=part_size,
    )
    plan = DayPlan(out.absolute(), dict(_pairs(suites, "--suite")))
    return run_day(plan, options, _card(), console())


def _card() -> str:
    """Return the name and the hashed UUID of the GPU; raise UserError if there is none."""
    from accelbench.profiling.devices import DeviceMissing, gpu_backend

    backend = gpu_backend()
    try:
        backend.require()
    except DeviceMissing as missing:
        raise UserError(str(missing)) from None
    card = backend.facts().gpus[0]
    return f"{card.name} {card.uuid_hash}"


def _pairs(words: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    """Return the stage and value of each argument STAGE=VALUE."""
    for word in words:
        if "=" not in word:
            raise UserError(f"{option} {word!r} must have the form STAGE=VALUE")
    return [(stage, value) for stage, _, value in (word.partition("=") for word in words)]


def _seconds(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text) or float(text) > MOST_SECONDS:
        raise UserError(f"--limit: {text!r} must be a number of seconds, at most a week")
    return float(text)
