"""The command `run`: benchmarks and options become a plan, and the plan a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelbench.commands import (
    BACKEND_OPTION,
    DEVICE_OPTION,
    FORMAT_OPTION,
    OUT_OPTION,
    QUIET_OPTION,
    TRUSTED_NETWORK_OPTION,
    VERBOSE_OPTION,
    BoundedNumber,
    complete_benchmark,
    complete_suite,
    console,
    find_device,
    say_for_programs,
)
from accelbench.export.document import DocumentFormat
from accelbench.settings.limits import MOST_ROUNDS, MOST_SECONDS, MOST_SEED

if TYPE_CHECKING:
    from accelbench.session import RunPlan


@click.command()
@click.argument("benchmarks", nargs=-1, metavar="[BENCHMARK]...", shell_complete=complete_benchmark)
@click.option(
    "--suite",
    metavar="NAME|FILE",
    help="A suite's name or TOML file. Default: quick, if no benchmark is named.",
    shell_complete=complete_suite,
)
@DEVICE_OPTION
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="AXIS=V1,V2",
    help="Values of an axis; BENCHMARK.AXIS=… for one benchmark.",
)
@BACKEND_OPTION
@OUT_OPTION
@click.option(
    "--seed", type=click.IntRange(0, MOST_SEED), default=1, show_default=True, help="Seed of all random inputs."
)
@click.option(
    "--time-limit",
    type=BoundedNumber(1, MOST_SECONDS),
    help="Seconds allowed to one point. Default: the benchmark's, mostly 300.",
)
@click.option(
    "--max-seconds",
    type=BoundedNumber(0.1, MOST_SECONDS),
    help="Sampling time of an unsteady point, shared by its rounds. Default: the suite's, else 15.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, MOST_ROUNDS),
    help="Fresh processes that measure each point in turns. Default: the suite's for kernels, else 1; of a training, "
    "which is long, 1.",
)
@click.option("--strategy", metavar="NAME", help="How trainings are distributed: short for --param strategy=NAME.")
@click.option("--no-ceilings", is_flag=True, help="Measure no ceilings of the device, and show no share of one.")
@click.option("--new-ceilings", is_flag=True, help="Measure the ceilings anew, though a run of the last hour has them.")
@click.option("--require-quiet", is_flag=True, help="End with status 1 if anything disturbed a point.")
@click.option("--without", metavar="RUN", help="Leave out the points that RUN has measured, and any it skipped.")
@TRUSTED_NETWORK_OPTION
@click.option("--trace", is_flag=True, help="Keep a trace of some training steps, for TensorBoard.")
@click.option("--name", default="", help="A name for people, which tables and pages show beside the run's id.")
@click.option("--note", default="", help="A sentence on what the run is about.")
@click.option("--tag", "tags", multiple=True, metavar="WORD", help="A word by which 'accelbench runs' finds it.")
@VERBOSE_OPTION
@QUIET_OPTION
@FORMAT_OPTION
@click.option("--dry-run", is_flag=True, help="Only name the points that would be measured, and estimate the time.")
@click.option("--host-profile", is_flag=True, help="Sample the host while trainings run: flame graph, shares, threads.")
def command(
    benchmarks: tuple[str, ...],
    suite: str | None,
    device: str,
    params: tuple[str, ...],
    backend: str | None,
    out: Path | None,
    seed: int,
    time_limit: float | None,
    max_seconds: float | None,
    rounds: int | None,
    strategy: str | None,
    no_ceilings: bool,
    new_ceilings: bool,
    require_quiet: bool,
    without: str | None,
    trusted_network: bool,
    trace: bool,
    host_profile: bool,
    verbose: bool,
    quiet: bool,
    form: DocumentFormat,
    dry_run: bool,
    name: str,
    note: str,
    tags: tuple[str, ...],
) -> int:
    """Measure benchmarks (all of a suite, or the named ones) and write a run directory."""
    from accelbench.execution.cluster import find_cluster
    from accelbench.execution.plan import Choice
    from accelbench.execution.store import Label
    from accelbench.session import complete, new_run, plan_run, serve

    choices = [Choice.parse(param) for param in params]
    if strategy:
        choices.append(Choice(None, "strategy", (strategy,)))
    cluster = find_cluster(os.environ)
    plan = plan_run(
        benchmarks,
        suite=suite,
        device=find_device(device),
        choices=choices,
        backend=backend,
        ranks=cluster.size if cluster else 1,
        without=without,
        seed=seed,
        time_limit=time_limit,
        max_seconds=max_seconds,
        rounds=rounds,
        ceilings=not no_ceilings,
        new_ceilings=new_ceilings or cluster is not None,
        require_quiet=require_quiet,
        trusted_network=trusted_network,
        trace=trace,
        host_profile=host_profile,
    )
    if cluster and cluster.rank > 0:
        return serve(cluster)
    to = console(stderr=form != "table", verbose=verbose, quiet=quiet)
    for line in plan.notes:
        to.print(line)
    if dry_run:
        show_plan(plan, form)
        return 0
    label = Label(name=name, note=note, tags=tags)
    store = new_run(out, plan, label)
    status = complete(store, to, cluster)
    say_for_programs(store, "run", form)
    return status


def show_plan(planned: RunPlan, form: DocumentFormat) -> None:
    """Print the points of a plan, each with its rounds, and how long they will take on this machine."""
    from accelbench.execution.plan import missing_frameworks
    from accelbench.execution.store import RUNS
    from accelbench.export.document import DocumentRow, ResultDocument
    from accelbench.output.console import say
    from accelbench.profiling.machine.environment.collect import collect
    from accelbench.results.find_run import stored_runs
    from accelbench.results.forecast import forecast, of_machine, past_seconds, usual_seconds

    plan, settings = planned.points, planned.settings
    missing = missing_frameworks(plan)
    possible = [point for point in plan if point.backend not in missing]
    past = past_seconds(of_machine(stored_runs(RUNS), collect()))
    estimate = forecast(possible, settings, past, usual_seconds(planned.suite, len(plan), planned.device)).sentence
    if form != "table":
        rows = [
            DocumentRow(
                str(point),
                {"rounds": settings.rounds_of(point)},
                "skipped",
                missing.get(point.backend or "", "a dry run measures nothing"),
            )
            for point in plan
        ]
        say(ResultDocument("run", {"dry_run": True, "estimate": estimate}, rows).write(form))
        return
    for point in plan:
        count = settings.rounds_of(point)
        skipped = ", would be skipped" * (point.backend in missing)
        say(f"{point}{f', {count} rounds' if count > 1 else ''}{skipped}")
    for reason in missing.values():
        say(f"would be skipped: {reason}")
    without = f", {len(plan) - len(possible)} of them skipped" * (len(possible) < len(plan))
    say(f"{len(plan)} points{without}; {estimate}; nothing was measured")
