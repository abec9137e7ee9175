"""Command `baseline`: limits of `gate`, learned from the runs of good nodes."""

from __future__ import annotations

from pathlib import Path

import click

from accelbench.commands import BoundedNumber, complete_run


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=complete_run)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="New TOML file.")
@click.option(
    "--tolerance",
    default=5.0,
    show_default=True,
    type=BoundedNumber(0.1, 90),
    help="Distance of the limits from the medians, in percent.",
)
@click.option("--include-noisy", is_flag=True, help="Include noisy measurements; the limits are then wider.")
@click.option("--mixed", is_flag=True, help="Accept runs of different hardware or settings.")
def command(runs: tuple[str, ...], out: Path, tolerance: float, include_noisy: bool, mixed: bool) -> None:
    """Learn the limits of 'accelbench gate' from runs of good nodes: median and spread of each point.

    Each RUN is a run, a bundle, a folder of runs, or machine:NAME for all stored runs of a machine.
    """
    from accelbench.gate.baseline import write_baseline
    from accelbench.gate.learn import learn
    from accelbench.output.console import say
    from accelbench.output.format import counted
    from accelbench.results.find_run import runs_of_arguments

    learned = learn(runs_of_arguments(runs), tolerance / 100, include_noisy, mixed)
    write_baseline(learned.baseline, out)
    for sentence in learned.left_out:
        say(sentence, stderr=True)
    for hardware in learned.baseline.hardware:
        say(f"{hardware.machine}: {counted(len(hardware.metric), 'metric')}")
        for metric in hardware.metric:
            if metric.limit == 0:
                say(f"{metric.point}: every value passes, because the runs differ too much: edit min", stderr=True)
    say(f"{out}: learned from {counted(learned.runs, 'run')}")
    if learned.runs == 1:
        say("the spread between runs is unknown: learn from several runs", stderr=True)
