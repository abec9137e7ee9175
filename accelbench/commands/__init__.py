"""Commands of the command line: the module NAME defines the command NAME as `command`; common options are here.

Heavy imports are inside the functions.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelbench.errors import UserError
from accelbench.export.document import FORMATS, DocumentFormat
from accelbench.profiling.devices import kinds
from accelbench.profiling.text import did_you_mean

if TYPE_CHECKING:
    from accelbench.execution.store import RunStore
    from accelbench.output.console import PlainConsole
    from accelbench.profiling.records.point import Device


class BoundedNumber(click.FloatRange):
    """Number within bounds; NaN is rejected."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; raise a usage error for an invalid one."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


class SuggestingChoice(click.Choice[str]):
    """Choice that suggests the nearest valid word in its error message."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return the error message with a suggestion."""
        wrong = super().get_invalid_choice_message(value, ctx)
        return wrong.removesuffix(".") + (did_you_mean(str(value), self.choices) or ".")


def complete_benchmark(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Return the benchmark names with the prefix `begun`, for shell completion."""
    from accelbench.execution.plan import discover

    return [name for name in discover() if name.startswith(begun)]


def complete_suite(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Return the suite names with the prefix `begun`, for shell completion."""
    from accelbench.execution.suite import suite_names

    return [name for name in suite_names() if name.startswith(begun)]


def complete_run(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Return the paths of stored runs with the prefix `begun`, for shell completion."""
    from accelbench.execution.store import RUNS

    found = ["latest", *sorted(str(path.parent) for path in RUNS.glob("*/run.json"))]
    return [word for word in found if word.startswith(begun)]


DEVICE_OPTION = click.option(
    "--device",
    type=SuggestingChoice(["auto", *kinds()]),
    default="auto",
    show_default=True,
    help="Device to measure; auto selects the best available.",
)
BACKEND_OPTION = click.option(
    "--backend",
    type=SuggestingChoice(["tensorflow", "jax", "torch"]),
    help="Keras backend. Default: the first installed.",
)
OUT_OPTION = click.option(
    "--out", type=click.Path(path_type=Path), help="Run directory, new or empty. Default: runs/<run-id>."
)

TRUSTED_NETWORK_OPTION = click.option(
    "--trusted-network",
    is_flag=True,
    help="Permit TensorFlow's unauthenticated servers (strategies multiworker, parameter-server). Anyone who can "
    "connect to this host's ports can then read and write your files.",
)


FORMAT_OPTION = click.option(
    "--format",
    "form",
    type=SuggestingChoice(FORMATS),
    default="table",
    show_default=True,
    help="Output format; with any other than table, standard output contains only the document.",
)
PRICE_OPTION = click.option(
    "--price",
    "given_prices",
    multiple=True,
    metavar="[RUN=]2.49/h",
    help="Price of an hour of all devices of a run, for the cost of training: 2.49/h or '2.49 EUR/h' for all runs, "
    "RUN=2.49/h for one of them; may be repeated.",
)
QUIET_OPTION = click.option(
    "--quiet", is_flag=True, help="Print only the outcome, the failures and the path of the report."
)
VERBOSE_OPTION = click.option(
    "--verbose", is_flag=True, help="Print all details of training workloads instead of one line each."
)


def console(stderr: bool = False, verbose: bool = False, quiet: bool = False) -> PlainConsole:
    """Return the console of a command."""
    from accelbench.output.console import PlainConsole

    return PlainConsole(stderr=stderr, verbose=verbose, quiet=quiet)


def print_document(store: RunStore, command: str, form: DocumentFormat) -> None:
    """Print the run as a document in the given format; nothing for `table`, which is already printed."""
    if form == "table":
        return
    from accelbench.output.console import say
    from accelbench.report.run_document import document_of_runs
    from accelbench.report.stored_run import Run

    say(document_of_runs([Run.of(store)], command).write(form))


def find_device(name: str) -> Device:
    """Return the device selected by `--device`; raise UserError if it is not available."""
    from accelbench.profiling import devices

    try:
        return devices.find_device(name)
    except devices.DeviceMissing as error:
        raise UserError(str(error)) from None
