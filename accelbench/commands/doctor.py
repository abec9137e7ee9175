"""Command `doctor`: check this machine for measurements."""

from __future__ import annotations

import click

from accelbench.commands import FORMAT_OPTION, console
from accelbench.export.document import DocumentFormat


@click.command()
@FORMAT_OPTION
def command(form: DocumentFormat) -> None:
    """Check this machine: devices, missing software, sources of noise, and the command that fixes each problem."""
    from accelbench.doctor import checks, document_of_checks, examine, render_doctor
    from accelbench.execution.store import RUNS
    from accelbench.output.console import say
    from accelbench.profiling.machine.environment.collect import collect

    environment, found = collect(), checks(runs=RUNS)
    if form == "table":
        render_doctor(environment, found, console())
    else:
        say(document_of_checks(environment, examine(found)).write(form))
