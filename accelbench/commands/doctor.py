"""The command `doctor`."""

from __future__ import annotations

import click

from accelbench.commands import FORMAT_OPTION, console
from accelbench.export.document import DocumentFormat


@click.command()
@FORMAT_OPTION
def command(form: DocumentFormat) -> None:
    """Tell what this machine has, what is missing for good measurements, and how to mend it."""
    from accelbench.doctor import document_of_checks, examine, render_doctor
    from accelbench.execution.store import RUNS
    from accelbench.output.console import say
    from accelbench.profiling.machine.environment.collect import collect

    environment, checks = collect(), examine(RUNS)
    if form == "table":
        render_doctor(environment, checks, console())
    else:
        say(document_of_checks(environment, checks).write(form))
