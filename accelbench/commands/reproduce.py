"""Command `reproduce`: evaluate the claims of a published study with stored runs or a new run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelbench.commands import (
    DEVICE_OPTION,
    FORMAT_OPTION,
    PRICE_OPTION,
    TRUSTED_NETWORK_OPTION,
    BoundedNumber,
    complete_run,
    console,
    find_device,
)
from accelbench.errors import Interrupted, RunBroken, UserError
from accelbench.export.document import DocumentFormat
from accelbench.settings.limits import MOST_SECONDS

if TYPE_CHECKING:
    from accelbench.execution.store import RunStore
    from accelbench.profiling.records.point import Device
    from accelbench.reproduce.paper import Paper
    from accelbench.results.forecast import StoredRunInfo as StoredRun

MEASURING = ("small", "device", "time_limit", "trusted_network")
"""Options of the measurement."""


def complete_paper(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Return the paper names with the prefix `begun`, for shell completion."""
    from accelbench.reproduce.paper import paper_names

    return [name for name in paper_names() if name.startswith(begun)]


@click.command()
@click.argument("paper", required=False, shell_complete=complete_paper)
@click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=complete_run)
@click.option(
    "--list", "listed", is_flag=True, help="List the papers with the number of their claims and their suites."
)
@click.option("--small", is_flag=True, help="Measure the small suite, which takes minutes on two CPU cores.")
@DEVICE_OPTION
@click.option(
    "--time-limit",
    type=BoundedNumber(1, MOST_SECONDS),
    help="Time limit of one point in seconds. Default: set by the benchmark.",
)
@TRUSTED_NETWORK_OPTION
@click.option("--include-noisy", is_flag=True, help="Include noisy measurements.")
@click.option(
    "--page", type=click.Path(path_type=Path, dir_okay=False), help="Page to write. Default: runs/reproduce-PAPER.html."
)
@PRICE_OPTION
@FORMAT_OPTION
@click.pass_context
def command(
    context: click.Context,
    paper: str | None,
    runs: tuple[str, ...],
    listed: bool,
    small: bool,
    device: str,
    time_limit: float | None,
    trusted_network: bool,
    include_noisy: bool,
    page: Path | None,
    given_prices: tuple[str, ...],
    form: DocumentFormat,
) -> int:
    """Evaluate the claims of a published study on these machines: confirmed, refuted or undecided, with the reason.

    PAPER is a name of --list, or the TOML file of a study of your own. The claims are evaluated with the given runs, of
    one machine or several. Without a RUN, the study's suite is measured on this machine first; repeat the command to
    resume an interrupted measurement.
    """
    from accelbench.execution.cluster import find_cluster
    from accelbench.execution.store import RUNS
    from accelbench.output.console import say
    from accelbench.report.prices import parse_prices
    from accelbench.reproduce.paper import load_paper, paper_names
    from accelbench.results.find_run import find_runs, stored_runs

    if listed:
        if paper:
            raise UserError(f"--list lists all papers: omit {paper}")
        from accelbench.reproduce.terminal_claims import print_papers

        print_papers([load_paper(name) for name in paper_names()], console())
        return 0
    if paper is None:
        raise UserError(f"PAPER is missing (choose {', '.join(paper_names())})")
    study, prices = load_paper(paper), parse_prices(given_prices)
    measuring = {name: context.get_parameter_source(name) for name in MEASURING}
    given = [name for name, source in measuring.items() if source is click.core.ParameterSource.COMMANDLINE]
    if runs and given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UserError(f"{options} applies to a new measurement: omit it, or omit the runs")
    for option in (f"--format {form}" * (form != "table"), "--price" * bool(prices)):
        if option and not runs:
            raise UserError(f"{option} needs stored runs: measure first, then name them")
    status = 0
    if not runs:
        cluster = find_cluster(os.environ)
        if cluster and cluster.rank > 0:
            from accelbench.session import serve

            return serve(cluster)  # rank 0 evaluates the claims
        before = stored_runs(RUNS)
        words = measurement(study, small, find_device(device), before, time_limit, trusted_network)
        status = run_words(words, 1 if cluster else study.processes)
        runs = (words[-1] if words[0] == "resume" else made_since(before),)
    from accelbench.report.joined import read_runs
    from accelbench.report.sections.costs import find_costs, print_costs, with_prices
    from accelbench.reproduce.claims_page import write_page
    from accelbench.reproduce.judging import document_of_judgement, judge
    from accelbench.reproduce.session import compare_session
    from accelbench.reproduce.terminal_claims import print_judgement, print_session

    found = [(word, store) for word in runs for store in find_runs(word)]
    joined = with_prices(read_runs([store for _, store in found]), prices, found, study.benchmarks)
    costs = find_costs(joined, study.benchmarks)
    judgement, session = judge(study, joined.runs, include_noisy), compare_session(study)
    to = console(quiet=form != "table")
    print_judgement(judgement, to)
    print_session(session, to)
    if costs:
        print_costs(costs, to)
    written = write_page(judgement, page or RUNS / f"reproduce-{study.name}.html", costs, session)
    say(f"page {written}", stderr=form != "table")
    if form != "table":
        document = document_of_judgement(judgement)
        if costs:
            document = replace(document, facts={**document.facts, "costs": costs.facts()})
        if session:
            limits = [each._asdict() | {"published": each.published or None} for each in session]
            document = replace(document, facts={**document.facts, "session": limits})
        say(document.write(form))
    return status


def measurement(
    paper: Paper,
    small: bool,
    device: Device,
    stores: Sequence[RunStore],
    time_limit: float | None,
    trusted_network: bool,
) -> list[str]:
    """Return the command that measures the paper's suite: `run`, or `resume` with the run directory as last argument.

    The latest unfinished run of the suite on this machine is resumed. The estimated time is printed.
    """
    from accelbench.execution.plan import make_plan, needed_ceilings
    from accelbench.execution.store import Settings
    from accelbench.execution.suite import load_suite
    from accelbench.output.console import say
    from accelbench.profiling.machine.environment.collect import collect
    from accelbench.results.forecast import forecast, of_machine, past_seconds, training_speed, usual_seconds

    name = (small and paper.small) or paper.suite
    suite, here = load_suite(name), collect()
    past = of_machine(stores, here)
    trusted = ["--trusted-network"] if trusted_network else []
    requested = make_plan((), suite, device, (), None, paper.processes)
    points = [*needed_ceilings(requested), *requested]
    usual_s = usual_seconds(suite, len(points), device)
    if found := interrupted(past, suite.name, device):
        settings, runs = found.info().settings, found.remaining_runs(found.lines())
        left = list({str(scheduled.point): scheduled.point for scheduled in runs}.values())
        words = ["resume", *trusted, str(found.path)]
        say(f"resuming the unfinished run {found.path} with its own settings")
    else:
        left = points
        sampling = suite.max_seconds.get(device) or Settings().max_seconds
        settings = Settings(time_limit_s=time_limit, max_seconds=sampling)
        limit = ["--time-limit", f"{time_limit:g}"] if time_limit else []
        words = ["run", "--suite", name, "--device", device, *limit, *trusted]
    estimate = forecast(left, settings, past_seconds(past), usual_s, training_speed(past, device, here))
    say(f"measuring {suite.name} on {device}: {estimate.sentence}")
    for data in paper.fetch:
        say(f"claims about quality need real data: run 'accelbench data fetch {data}'")
    return words


def interrupted(runs: Sequence[StoredRun], suite: str, device: Device) -> RunStore | None:
    """Return the last unfinished run of the suite on the device; None without one."""
    from accelbench.execution.suite import RENAMED

    found = [
        store
        for store, info in runs
        if (RENAMED.get(info.suite or "", info.suite), info.device) == (suite, device) and info.status != "finished"
    ]
    return found[-1] if found else None


def made_since(before: Sequence[RunStore]) -> str:
    """Return the directory of the latest run that is not in `before`; raise `RunBroken` if there is none."""
    from accelbench.execution.store import RUNS
    from accelbench.results.find_run import stored_runs

    known = {store.path for store in before}
    made = [store.path for store in stored_runs(RUNS) if store.path not in known]
    if not made:
        raise RunBroken(f"no new run under {RUNS}: there is nothing to evaluate")
    return str(made[-1])


def run_words(words: Sequence[str], processes: int) -> int:
    """Run a command of accelbench in the given number of processes, and return its exit status.

    Raises `Interrupted` with the command to resume.
    """
    from accelbench.commands.launch import launch

    status: int
    try:
        if processes > 1:
            status = launch(words, processes, 1)
        else:
            measure: click.Command = import_module(f"accelbench.commands.{words[0]}").command
            status = measure.main(list(words[1:]), standalone_mode=False) or 0
    except Interrupted as error:
        raise Interrupted(f"{error}; this command resumes, too") from None
    if status == Interrupted.exit_status:
        raise Interrupted("interrupted: repeat the command to resume")
    return status
