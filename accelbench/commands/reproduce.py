"""The command `reproduce`: the claims of a published study, judged by stored runs or by a run that it makes first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelbench.commands import (
    DEVICE_OPTION,
    FORMAT_OPTION,
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
"""The options that say how to measure."""


def complete_paper(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Return the papers that a word on the command line may become."""
    from accelbench.reproduce.paper import paper_names

    return [name for name in paper_names() if name.startswith(begun)]


@click.command()
@click.argument("paper", required=False, shell_complete=complete_paper)
@click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=complete_run)
@click.option("--list", "listed", is_flag=True, help="List the papers, the number of their claims, and their suites.")
@click.option("--small", is_flag=True, help="Measure the small suite: minutes on two CPU cores.")
@DEVICE_OPTION
@click.option(
    "--time-limit", type=BoundedNumber(1, MOST_SECONDS), help="Seconds allowed to one point. Default: the benchmark's."
)
@TRUSTED_NETWORK_OPTION
@click.option("--even-if-disturbed", is_flag=True, help="Decide by points that were disturbed, too.")
@click.option(
    "--page", type=click.Path(path_type=Path, dir_okay=False), help="The page. Default: runs/reproduce-PAPER.html."
)
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
    even_if_disturbed: bool,
    page: Path | None,
    form: DocumentFormat,
) -> int:
    """Tell of each claim of a published study whether it holds on these machines: confirmed, refuted, or why not.

    PAPER is a name that --list shows, or a TOML file of the same form. Judge the runs that are given, of one machine or
    of several. Without any, measure the study's suite on this machine first; the same command goes on with a
    measurement that was interrupted.
    """
    from accelbench.execution.cluster import find_cluster
    from accelbench.execution.store import RUNS
    from accelbench.output.console import say
    from accelbench.reproduce.paper import load_paper, paper_names
    from accelbench.results.find_run import find_runs, stored_runs

    if listed:
        if paper:
            raise UserError(f"--list names every paper: leave out {paper}")
        from accelbench.reproduce.terminal_claims import print_papers

        print_papers([load_paper(name) for name in paper_names()], console())
        return 0
    if paper is None:
        raise UserError(f"name a paper: {', '.join(paper_names())}")
    asked = load_paper(paper)
    measuring = {name: context.get_parameter_source(name) for name in MEASURING}
    given = [name for name, source in measuring.items() if source is click.core.ParameterSource.COMMANDLINE]
    if runs and given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UserError(f"{options} is for measuring, and the runs to judge are given: leave out either")
    if not runs and form != "table":
        raise UserError(f"--format {form} is for judging runs that are there: measure first, and name them")
    status = 0
    if not runs:
        cluster = find_cluster(os.environ)
        if cluster and cluster.rank > 0:
            from accelbench.session import serve

            return serve(cluster)  # rank 0 judges
        before = stored_runs(RUNS)
        words = measurement(asked, small, find_device(device), before, time_limit, trusted_network)
        status = run_words(words, 1 if cluster else asked.processes)
        runs = (words[-1] if words[0] == "resume" else made_since(before),)
    from accelbench.report.joined import read_runs
    from accelbench.reproduce.claims_page import write_page
    from accelbench.reproduce.judging import document_of_judgement, judge
    from accelbench.reproduce.terminal_claims import print_judgement

    joined = read_runs([store for word in runs for store in find_runs(word)])
    judgement = judge(asked, joined.runs, even_if_disturbed)
    print_judgement(judgement, console(quiet=form != "table"))
    written = write_page(judgement, page or RUNS / f"reproduce-{asked.name}.html")
    say(f"page {written}", stderr=form != "table")
    if form != "table":
        say(document_of_judgement(judgement).write(form))
    return status


def measurement(
    paper: Paper,
    small: bool,
    device: Device,
    stores: Sequence[RunStore],
    time_limit: float | None,
    trusted_network: bool,
) -> list[str]:
    """Return the command that measures the paper's suite here: `run`, or `resume` with a run's directory as last word.

    It goes on with the last of the stored runs that is of that suite and this machine and was not finished. How long it
    will take is said before.
    """
    from accelbench.execution.plan import ceilings_beside, make_plan
    from accelbench.execution.store import Settings
    from accelbench.execution.suite import load_suite
    from accelbench.output.console import say
    from accelbench.profiling.machine.environment.collect import collect
    from accelbench.results.forecast import forecast, of_machine, past_seconds, usual_seconds

    name = paper.small if small else paper.suite
    suite, past = load_suite(name), of_machine(stores, collect())
    trusted = ["--trusted-network"] if trusted_network else []
    asked = make_plan((), suite, device, (), None, paper.processes)
    whole = [*ceilings_beside(asked), *asked]
    usual_s = usual_seconds(suite, len(whole), device)
    if found := interrupted(past, suite.name, device):
        settings, turns = found.info().settings, found.turns_left(found.lines())
        left = list({str(turn.point): turn.point for turn in turns}.values())
        words = ["resume", *trusted, str(found.path)]
        say(f"going on with {found.path}, which was not finished; it keeps its own settings")
    else:
        left = whole
        sampling = suite.max_seconds.get(device) or Settings().max_seconds
        settings = Settings(time_limit_s=time_limit, max_seconds=sampling)
        limit = ["--time-limit", f"{time_limit:g}"] if time_limit else []
        words = ["run", "--suite", name, "--device", device, *limit, *trusted]
    estimate = forecast(left, settings, past_seconds(past), usual_s)
    say(f"measuring {suite.name} on {device}: {estimate.sentence}")
    for data in paper.fetch:
        say(f"claims about quality need real data: 'accelbench data fetch {data}' gets it")
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
    """Return the directory of the last run that is not among those before; `RunBroken` where there is none."""
    from accelbench.execution.store import RUNS
    from accelbench.results.find_run import stored_runs

    known = {store.path for store in before}
    made = [store.path for store in stored_runs(RUNS) if store.path not in known]
    if not made:
        raise RunBroken(f"no run was begun under {RUNS}: there is nothing to judge")
    return str(made[-1])


def run_words(words: Sequence[str], processes: int) -> int:
    """Run that command of accelbench in so many processes, and return its status.

    `Interrupted` says how to go on.
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
        raise Interrupted(f"{error}, and so does this command") from None
    if status == Interrupted.exit_status:
        raise Interrupted("interrupted: the same command goes on")
    return status
