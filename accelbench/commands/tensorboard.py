"""Command `tensorboard`: serve a run's traces and scalars."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import click

from accelbench.commands import complete_run
from accelbench.errors import UserError
from accelbench.profiling.child import child_command, child_environment

PORT = 6006
LOOPBACK = "127.0.0.1"
SILENT = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0"}
"""Environment variables that silence TensorFlow, which the server imports, about CPU instructions."""


@click.command()
@click.argument("run", metavar="[RUN]", default="latest", shell_complete=complete_run)
@click.option(
    "--port",
    default=PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of the server; 0 selects a free port.",
)
def command(run: str, port: int) -> int:
    """Open a run's traces and scalars, by default the latest run's, in TensorBoard on this machine only."""
    from accelbench.output.console import say
    from accelbench.profiling.machine.packages import missing_trace_packages
    from accelbench.profiling.trace.formats import FORMATS
    from accelbench.results.find_run import open_run

    store = open_run(run)
    traces = store.path / "traces"
    if not traces.is_dir():
        raise UserError(f"{traces.parent} has no traces: measure with 'accelbench run --trace'")
    if missing := missing_trace_packages():
        raise UserError(missing)
    if port:
        say("\n".join(["pages that need no internet connection:", *links(traces, port)]))
    say(f"the other profile pages load charts from the internet; their tables are in {store.path}/report.html")
    for form in FORMATS:
        if form.no_xprof:
            for file in sorted(traces.rglob(form.files)):
                say(f"TensorBoard cannot show this trace; use {form.viewers}: {file}", stderr=True)
    return subprocess.run(tensorboard_command(traces, port), check=False, env=SILENT | child_environment()).returncode


def links(traces: Path, port: int) -> Iterator[str]:
    """Yield the URLs of the scalars and of each trace in the Trace Viewer."""
    from accelbench.profiling.trace.formats import XPLANE

    server = f"http://{LOOPBACK}:{port}"
    yield f"  {server}/#scalars"
    for file in sorted(traces.glob(f"*/{XPLANE.files}")):
        session = quote(f"{file.relative_to(traces).parts[0]}/{file.parent.name}")
        yield f"  {server}/?run={session}&tool=trace_viewer@#profile"


def tensorboard_command(folder: Path, port: int) -> list[str]:
    """Return the command that serves the folder's traces and scalars on the loopback address; port 0 is any free port.

    The server ends with this process, even after a crash.
    """
    rust = "--load_fast=false"  # the Rust data server shows no traces and is not portable
    where = ("--logdir", str(folder), "--host", LOOPBACK, "--port", str(port))
    return child_command("tensorboard.main", *where, rust)
