"""The command line: `accelbench` and `python -m accelbench`.

Exit status: 0 all measured and verified; 1 a point failed, the run broke off, or data is damaged; 2 wrong use,
something unknown or a device that is not there; 3 a regression found by `compare --fail-on`; 130 interrupted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelbench import __version__
from accelbench.commands.data import data
from accelbench.commands.gpu_day import gpu_day
from accelbench.commands.pack import pack
from accelbench.errors import Interrupted, UserError

if TYPE_CHECKING:
    from rich.console import Console

    from accelbench.run.cluster import Cluster
    from accelbench.run.store import RunStore

DEVICES = click.Choice(["auto", "cpu", "gpu", "tpu"])
BACKENDS = click.Choice(["tensorflow", "jax", "torch"])
DEVICE_OPTION = click.option(
    "--device", type=DEVICES, default="auto", show_default=True, help="Where to measure; auto: the best there is."
)
BACKEND_OPTION = click.option(
    "--backend", type=BACKENDS, help="The framework under Keras. Default: the first installed of them."
)
OUT_OPTION = click.option(
    "--out", type=click.Path(path_type=Path), help="The run's directory, new or empty. Default: runs/<run-id>."
)
EXIT_FAILED, EXIT_REGRESSION = 1, 3


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a locale that lacks µ or × costs a character, never the run
    try:
        return cli.main(argv, prog_name="accelbench", standalone_mode=False) or 0
    except click.ClickException as error:
        return _complain(error.format_message(), 2)
    except UserError as error:
        return _complain(str(error), error.exit_status)
    except (KeyboardInterrupt, click.Abort):
        return _complain("interrupted", Interrupted.exit_status)
    except BrokenPipeError:
        # The reader (head, less) has seen enough; keep Python from complaining about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _complain(message: str, status: int) -> int:
    print(f"accelbench: {' '.join(message.split())}", file=sys.stderr)
    return status


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__)
def cli() -> None:
    """Measure how fast this machine is for GPU computing and deep learning, and what holds it back."""


@cli.command("list")
def list_command() -> None:
    """List the benchmarks with their axes, and the suites."""
    from accelbench.run.plan import discover
    from accelbench.run.suite import load_suite, suite_names

    console, indent = _console(), " " * 4
    for benchmark in discover().values():
        console.print(f"[bold]{benchmark.name}[/bold]  {', '.join(benchmark.devices)}: {benchmark.summary}")
        by_axes: dict[str, list[str]] = {}
        for device in benchmark.devices:
            values = benchmark.axes_on(device).items()
            axes = "  ".join(f"{axis}={','.join(map(str, defaults))}" for axis, defaults in values)
            by_axes.setdefault(axes, []).append(device)
        for axes, devices in by_axes.items():
            console.print(f"{indent}{axes}" + (f"  [dim]({', '.join(devices)})[/dim]" if len(by_axes) > 1 else ""))
        for axis, choices in benchmark.choices.items():
            console.print(f"{indent}[dim]{axis} is one of {', '.join(map(str, choices))}[/dim]")
        if rules := benchmark.rules():
            console.print(f"{indent}[dim]{'; '.join(rules)}[/dim]")
    console.print("\nsuites")
    for name in suite_names():
        console.print(f"[bold]{name}[/bold]  {load_suite(name).description}")


@cli.command()
@click.argument("benchmarks", nargs=-1, metavar="[BENCHMARK]...")
@click.option(
    "--suite", metavar="NAME|FILE", help="A suite's name or TOML file. Default: quick, if no benchmark is named."
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
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of all random inputs.")
@click.option(
    "--time-limit",
    type=click.FloatRange(min=1),
    help="Seconds allowed to one point. Default: the benchmark's, mostly 300.",
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0.1),
    help="Sampling time of an unsteady point. Default: the suite's, else 15.",
)
@click.option("--strategy", metavar="NAME", help="How trainings are distributed: short for --param strategy=NAME.")
@click.option("--no-ceilings", is_flag=True, help="Do not measure the device's ceilings beside what was asked for.")
@click.option("--without", metavar="RUN", help="Leave out the points that RUN has measured, and any it skipped.")
@click.option("--trace", is_flag=True, help="Keep a trace of some training steps, for TensorBoard.")
@click.option("--host-profile", is_flag=True, help="Sample the host while trainings run: flame graph, shares, threads.")
def run(
    benchmarks: tuple[str, ...],
    suite: str | None,
    device: str,
    params: tuple[str, ...],
    backend: str | None,
    out: Path | None,
    seed: int,
    time_limit: float | None,
    max_seconds: float | None,
    no_ceilings: bool,
    without: str | None,
    trace: bool,
    host_profile: bool,
    strategy: str | None,
) -> int:
    """Measure benchmarks (all of a suite, or the named ones) and write a run directory."""
    from accelbench.run.cluster import find_cluster
    from accelbench.run.plan import Choice, make_plan, replaced_backend
    from accelbench.run.session import new_run, serve
    from accelbench.run.store import Settings
    from accelbench.run.suite import load_suite

    chosen = load_suite(suite or "quick") if suite or not benchmarks else None
    choices = [Choice.parse(param) for param in params]
    if strategy:
        choices.append(Choice(None, "strategy", (strategy,)))
    on_tpu = any(choice.axis == "strategy" and "tpu" in choice.values for choice in choices)
    found = _find_device("tpu" if on_tpu and device == "auto" else device)
    cluster = find_cluster(os.environ)
    ranks = cluster.size if cluster else 1
    plan = make_plan(benchmarks, chosen, found, choices, backend, not no_ceilings, ranks)
    if without:
        from accelbench.run.find import left_by, open_run

        plan = left_by(open_run(without), plan)
    if cluster and cluster.rank > 0:
        return serve(cluster)
    if replaced := replaced_backend(plan, backend):
        _console().print(replaced)
    settings = Settings(
        seed=seed,
        time_limit_s=time_limit,
        max_seconds=max_seconds or (chosen and chosen.max_seconds.get(found)) or Settings().max_seconds,
        trace=trace,
        host_profile=host_profile,
    )
    name = chosen.name if chosen else None
    return _measure(new_run(out, name or benchmarks[0], name, found, settings, plan), cluster)


@cli.command()
@click.argument("workload")
@DEVICE_OPTION
@click.option("--param", "params", multiple=True, metavar="AXIS=V", help="The value of an axis of the workload.")
@BACKEND_OPTION
@click.option("--cores", metavar="1,2,4", help="Numbers of host cores. Default: 1, 2, 4 … to all.")
@click.option("--workers", metavar="1,2,4", help="Numbers of input workers, on all cores. Default: as of cores.")
@OUT_OPTION
def cores(
    workload: str,
    device: str,
    params: tuple[str, ...],
    backend: str | None,
    cores: str | None,
    workers: str | None,
    out: Path | None,
) -> int:
    """Tell how many host cores a training needs: train with 1, 2, 4 … of them, and with as many input workers."""
    from accelbench.cores import plan_cores
    from accelbench.run.plan import Choice, replaced_backend
    from accelbench.run.session import new_run
    from accelbench.run.store import Settings

    found = _find_device(device)
    plan = plan_cores(workload, found, [Choice.parse(p) for p in params], backend, cores, workers)
    if replaced := replaced_backend(plan, backend):
        _console().print(replaced)
    return _measure(new_run(out, f"cores-{workload}", None, found, Settings(), plan))


@cli.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--procs", type=click.IntRange(1), default=2, show_default=True, help="Processes on each node.")
@click.option("--nodes", type=click.IntRange(1), default=1, show_default=True, help="Nodes that this host plays.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="run|resume [ARGUMENT]...")
def launch(procs: int, nodes: int, command: tuple[str, ...]) -> int:
    """Run a command of accelbench in several processes of this host, which measure together.

    For trying out; on a cluster srun, mpirun and torchrun start them: 'srun -n 8 accelbench run …'.
    """
    from accelbench.run.launch import launch as launch_ranks

    return launch_ranks(command, procs, nodes)


@cli.command()
@click.argument("run", metavar="RUN")
@click.option("--failed", is_flag=True, help="Measure the points that failed once more, too.")
def resume(run: str, failed: bool) -> int:
    """Go on with an interrupted run: measure only what is missing."""
    from accelbench.cores import require_cores
    from accelbench.run.cluster import find_cluster
    from accelbench.run.find import open_directory
    from accelbench.run.session import serve
    from profiling.machine.environment.collect import collect

    cluster = find_cluster(os.environ)
    if cluster and cluster.rank > 0:
        return serve(cluster)
    store = open_directory(run)
    store.lock()
    store.drop_cut_off_line()
    info = store.info()
    _find_device(info.device)
    then, now = info.environment, collect()
    if (then.cpu.model, [gpu.uuid_hash for gpu in then.gpus]) != (now.cpu.model, [gpu.uuid_hash for gpu in now.gpus]):
        raise UserError(f"{store.path} was measured on another machine: its figures and this one's do not mix")
    require_cores(info.plan)
    return _measure(store, cluster, retry_failed=failed)


def _measure(store: RunStore, cluster: Cluster | None = None, retry_failed: bool = False) -> int:
    from accelbench.run.session import measure

    records = measure(store, _console(), cluster, retry_failed)
    return EXIT_FAILED if any(record.status == "failed" for record in records) else 0


@cli.command()
@click.argument("run", metavar="RUN")
@click.option("--quiet", is_flag=True, help="Write the files only; do not print the table.")
def report(run: str, quiet: bool) -> None:
    """Print a run's table again and rebuild its report.html, CSV and Parquet from the stored records."""
    from accelbench.report import write_report
    from accelbench.report.terminal import print_run
    from accelbench.run.find import open_run

    store = open_run(run)
    if not quiet:
        print_run(store.info(), store.records(), _console())
    path = write_report(store)
    print(f"report {path}")


@cli.command()
@click.argument("run", metavar="RUN")
@click.option("--port", default=6006, show_default=True, type=click.IntRange(0, 65535), help="0 takes any free one.")
def tensorboard(run: str, port: int) -> int:
    """Open a run's traces and scalars in TensorBoard, on this machine only."""
    from accelbench.run.find import open_run
    from profiling.trace.tensorboard import tensorboard_command

    traces = open_run(run).path / "traces"
    if not traces.is_dir():
        raise UserError(f"{traces.parent} has no traces: 'accelbench run --trace', or make bench TRACE=1, keeps them")
    return subprocess.run(tensorboard_command(traces, port), check=False).returncode


@cli.command()
@click.argument("run_a", metavar="RUN_A")
@click.argument("run_b", metavar="RUN_B")
@click.option("--fail-on", metavar="slower:5%", help="Exit with status 3 if a point of B is that much slower than A's.")
@click.option(
    "--equivalence",
    default=3.0,
    show_default=True,
    type=click.FloatRange(0, 100),
    help="Percent within which two medians are the same.",
)
def compare(run_a: str, run_b: str, fail_on: str | None, equivalence: float) -> int:
    """Compare run B with run A: faster, slower, same or cannot tell, point by point."""
    from accelbench.compare.runs import compare as compare_runs
    from accelbench.compare.runs import parse_fail_on, regressions, render_comparison
    from accelbench.run.find import open_run

    rule = parse_fail_on(fail_on) if fail_on else None
    comparison = compare_runs(open_run(run_a), open_run(run_b), equivalence / 100)
    render_comparison(comparison, _console())
    found = regressions(comparison, rule) if rule else []
    for regression in found:
        print(f"regression: {regression.point}: {regression.reason}")
    return EXIT_REGRESSION if found else 0


@cli.command()
def doctor() -> None:
    """Tell what this machine has, what is missing for good measurements, and how to mend it."""
    from accelbench.doctor import examine, render_doctor
    from accelbench.run.store import RUNS
    from profiling.machine.environment.collect import collect

    render_doctor(collect(), examine(RUNS), _console())


@cli.command()
@click.argument("card", default="")
def peaks(card: str) -> None:
    """Show the vendors' peak figures with their sources, of all cards or those whose name contains CARD."""
    from accelbench.commands.peaks import render_peaks

    render_peaks(_console(), card)


@cli.command()
@click.argument("what", type=click.Choice(["record", "run"]), default="record")
def schema(what: str) -> None:
    """Print the JSON Schema of a line of records.jsonl, or of run.json."""
    import json

    from accelbench.run.store import RunInfo
    from profiling.records.record import Record

    model = Record if what == "record" else RunInfo
    print(json.dumps(model.model_json_schema(), indent=2))


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(highlight=False, stderr=stderr)


def _find_device(name: str) -> Any:
    from profiling.machine.devices import DeviceMissing, find_device

    try:
        return find_device(name)
    except DeviceMissing as error:
        raise UserError(str(error)) from None


cli.add_command(data)
cli.add_command(pack)
cli.add_command(gpu_day)


if __name__ == "__main__":
    sys.exit(main())
