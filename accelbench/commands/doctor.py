"""The command `doctor`."""

from __future__ import annotations

import click

from accelbench.commands import console


@click.command()
def command() -> None:
    """Tell what this machine has, what is missing for good measurements, and how to mend it."""
    from accelbench.doctor import examine, render_doctor
    from accelbench.run.store import RUNS
    from profiling.machine.environment.collect import collect

    render_doctor(collect(), examine(RUNS), console())
