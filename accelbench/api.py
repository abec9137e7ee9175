"""Running benchmarks and reading stored runs from Python: `accelbench.run`, `accelbench.load`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

import pandas as pd

from accelbench.commands import find_device
from accelbench.errors import UserError
from accelbench.execution.cluster import find_cluster
from accelbench.execution.plan import Choice
from accelbench.execution.store import Label
from accelbench.output.console import PlainConsole
from accelbench.output.plain_text import plain
from accelbench.profiling.benchmark import REGISTRY
from accelbench.profiling.records.point import Scalar
from accelbench.report.stored_run import Run
from accelbench.report.table import make_table
from accelbench.results.find_run import open_run
from accelbench.session import complete, new_run, plan_run

Values = Scalar | Iterable[Scalar]
"""One value of an axis, or several."""


class StoredRun(Run):
    """Stored run.

    `info` has the settings and the environment, `records` has one record per point (`accelbench.profiling.records`),
    and `store.path` is the directory.
    """

    def table(self) -> pd.DataFrame:
        """Return one row per point, with the columns of `records.csv`; units are in the column names or in `unit`."""
        return make_table(self)

    def __repr__(self) -> str:
        return f"run {self.info.run_id} on {self.info.device}: {self.outcome}"

    def _repr_html_(self) -> str:
        shown = self.table()[["benchmark", "status", "median_s", "rate", "unit", "noise"]]
        return f"<p>{escape(plain(repr(self)))}</p>{shown.to_html(index=False, na_rep='', max_rows=20)}"


def load(run: str | Path) -> StoredRun:
    """Open a stored run: its directory, a file in it, a bundle, its ID under `runs`, or `latest`.

    Raises `UserError` if it does not exist. Corrupt parts are left out with a warning.
    """
    return StoredRun.of(open_run(str(run)))


def run(
    *benchmarks: str,
    suite: str | Path | None = None,
    device: str = "auto",
    params: Mapping[str, Values] | None = None,
    backend: str | None = None,
    strategy: str | None = None,
    out: str | Path | None = None,
    seed: int = 1,
    time_limit: float | None = None,
    max_seconds: float | None = None,
    patience: float | None = None,
    rounds: int | None = None,
    ceilings: bool = True,
    new_ceilings: bool = False,
    trace: bool = False,
    host_profile: bool = False,
    name: str = "",
    note: str = "",
    tags: Sequence[str] = (),
    quiet: bool = False,
) -> StoredRun:
    """Run benchmarks as `accelbench run` does, and return the stored run.

    Points are measured in separate processes, so your own benchmarks must be in files of a folder in ACCELBENCH_PATH,
    not in a notebook. `params` maps an axis, or `BENCHMARK.AXIS`, to one or several values; the other parameters are
    the options of the command. Progress and results are printed unless `quiet`.

    Failed points are records with the status `failed`. Raises `UserError` for unknown names and values, and
    `Interrupted` after Ctrl-C; `accelbench resume` then completes the run.
    """
    if find_cluster(os.environ):
        raise UserError("accelbench.run needs a single process: start several ranks with 'accelbench launch'")
    for each in benchmarks:
        if each in REGISTRY and REGISTRY[each].prepare.__module__ == "__main__":
            raise UserError(f"{each} is declared in __main__: move it to a file of a folder in ACCELBENCH_PATH")
    given = [f"{axis}={','.join(map(str, _several(values)))}" for axis, values in (params or {}).items()]
    planned = plan_run(
        benchmarks,
        suite=None if suite is None else str(suite),
        device=find_device(device),
        choices=[*map(Choice.parse, given), *([Choice(None, "strategy", (strategy,))] if strategy else [])],
        backend=backend,
        seed=seed,
        time_limit=time_limit,
        max_seconds=max_seconds,
        patience=patience,
        rounds=rounds,
        ceilings=ceilings,
        new_ceilings=new_ceilings,
        trace=trace,
        host_profile=host_profile,
    )
    console = PlainConsole(quiet=quiet)
    for line in planned.notes:
        console.print(line)
    options = {"suite": suite, "device": planned.device, "backend": backend, "strategy": strategy}
    words = [f"--{option}={value}" for option, value in options.items() if value is not None]
    command = ["accelbench", "run", *benchmarks, *words, *(f"--param={each}" for each in given)]
    label = Label(name=name, note=note, tags=tuple(tags))
    store = new_run(None if out is None else Path(out), planned, label, command)
    complete(store, console)
    return StoredRun.of(store)


def _several(values: Values) -> list[Scalar]:
    return [values] if isinstance(values, str | int) else list(values)
