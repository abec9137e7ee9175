"""Command `run`: measure benchmarks or a suite."""

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
    print_document,
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
    help="Suite name or TOML file. Default: quick, if no benchmark is named.",
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
    help="Time limit of one point in seconds. Default: set by the benchmark, usually 300.",
)
@click.option(
    "--max-seconds",
    type=BoundedNumber(0.1, MOST_SECONDS),
    help="Maximum sampling time of a point in seconds, shared by its repetitions. Default: set by the suite, else 15.",
)
@click.option(
    "--patience",
    type=BoundedNumber(0, MOST_SECONDS),
    help="Additional sampling time of the run in seconds, for points with too few undisturbed samples. Default: half "
    "of the planned sampling time.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, MOST_ROUNDS),
    help="Repetitions of each point, each in a new process, interleaved with the other points. Default: set by the "
    "suite, else 3 of a kernel and 1 of a training workload.",
)
@click.option(
    "--strategy", metavar="NAME", help="Distribution strategy of training workloads; short for --param strategy=NAME."
)
@click.option(
    "--no-ceilings",
    is_flag=True,
    help="Do not measure ceilings (empirical peaks) of the device; results have no share of a ceiling.",
)
@click.option("--new-ceilings", is_flag=True, help="Measure the ceilings even if a run of the last hour has them.")
@click.option("--require-quiet", is_flag=True, help="Exit with status 1 if a point is noisy.")
@click.option("--without", metavar="RUN", help="Leave out the points that RUN has measured or skipped.")
@TRUSTED_NETWORK_OPTION
@click.option("--trace", is_flag=True, help="Store a trace of some training steps, for TensorBoard.")
@click.option("--name", default="", help="Display name of the run, shown in tables and reports.")
@click.option("--note", default="", help="Note stored with the run.")
@click.option("--tag", "tags", multiple=True, metavar="WORD", help="Tag for 'accelbench runs'; may be repeated.")
@VERBOSE_OPTION
@QUIET_OPTION
@FORMAT_OPTION
@click.option("--dry-run", is_flag=True, help="Print the planned points and the estimated time; measure nothing.")
@click.option(
    "--host-profile",
    is_flag=True,
    help="Profile the host during training workloads: flame graph, time shares, threads.",
)
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
    patience: float | None,
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
    """Measure the named benchmarks, or all of a suite, and write a run directory."""
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
        patience=patience,
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
    print_document(store, "run", form)
    return status


def show_plan(planned: RunPlan, form: DocumentFormat) -> None:
    """Print the points of a plan with their repetitions, and the estimated time on this machine."""
    from accelbench.execution.plan import missing_frameworks
    from accelbench.execution.store import RUNS
    from accelbench.export.document import DocumentRow, ResultDocument
    from accelbench.output.console import say
    from accelbench.profiling.machine.environment.collect import collect
    from accelbench.results.find_run import stored_runs
    from accelbench.results.forecast import forecast, of_machine, past_seconds, training_speed, usual_seconds

    plan, settings = planned.points, planned.settings
    missing = missing_frameworks(plan)
    possible = [point for point in plan if point.backend not in missing]
    here = collect()
    runs = of_machine(stored_runs(RUNS), here)
    usual_s, speed = usual_seconds(planned.suite, len(plan), planned.device), training_speed(runs, planned.device, here)
    estimate = forecast(possible, settings, past_seconds(runs), usual_s, speed).sentence
    if form != "table":
        rows = [
            DocumentRow(
                str(point),
                {"rounds": settings.rounds_of(point)},
                "skipped",
                missing.get(point.backend or "", "dry run"),
            )
            for point in plan
        ]
        say(ResultDocument("run", {"dry_run": True, "estimate": estimate}, rows).write(form))
        return
    for point in plan:
        count = settings.rounds_of(point)
        skipped = ", would be skipped" * (point.backend in missing)
        say(f"{point}{f', {count} repetitions' if count > 1 else ''}{skipped}")
    for reason in missing.values():
        say(f"would be skipped: {reason}")
    skipped_text = f", {len(plan) - len(possible)} of them skipped" * (len(possible) < len(plan))
    say(f"{len(plan)} points{skipped_text}; {estimate}; nothing was measured")
