"""Run a suite of accelbench as a regression test of ReFrame (pip install reframe-hpc; 4.0 or newer).

    reframe -c containers/reframe/accelbench_check.py -r --performance-report \
        -S suite=kernels -S stored_run=$PWD/runs/ACCEPTED -S tolerance=0.05 \
        -S executable="apptainer exec $PWD/containers/build/accelbench-cpu.sif accelbench"

*Sanity*: every point has a record, no verification failed, and every point measured in the stored run was measured.
*Performance*: the result of each measured point, compared with the stored run; the test fails if a result is worse by
more than the fraction `tolerance`. Without `stored_run`, results are only reported. ReFrame keeps the run in its output
folder until the next execution of the test, so that `accelbench compare` can separate a regression from noise; a copy
can serve as the next stored run. ReFrame's own Python needs no accelbench. The site's configuration file (-C) defines
the launch of jobs, and options such as `-S num_cpus_per_task=64` or `-S num_gpus_per_node=1` their resources.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_after, run_before, sanity_function, variable

Record = dict[str, Any]
UNITS = {"flops": "FLOP/s", "bytes": "B/s", "time": "s"}


def read_run(folder: Path) -> dict[str, list[Record]]:
    """Return the records of a run by point name: the last record of each repetition."""
    lines = (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
    repetitions = {(point_name(record), record["round"]): record for record in map(json.loads, lines)}
    points: dict[str, list[Record]] = {}
    for (name, _), record in repetitions.items():
        points.setdefault(name, []).append(record)
    return points


def point_name(record: Record) -> str:
    """Return the point's name, such as `matmul cpu impl=vendor n=2048`."""
    point = record["point"]
    where = [point["benchmark"], point["device"], point["backend"]]
    return " ".join([word for word in where if word] + [f"{axis}={value}" for axis, value in point["params"].items()])


def result(repetitions: list[Record]) -> tuple[float, str]:
    """Return the median of the point's main metric over its repetitions, and its unit."""
    results = [result_of_repetition(record) for record in repetitions]
    return median(value for value, _ in results), results[0][1]


def result_of_repetition(record: Record) -> tuple[float, str]:
    """Return work per second, or seconds per item; for a training workload from the mean of its steady steps."""
    timing, work, metric = record["timing"], record["work"] or {}, record["figure"]
    steady = timing.get("steady")
    seconds = steady["seconds"] / steady["steps"] if steady else timing["summary"]["median"]
    if metric == "time":
        return seconds / (work.get("items") or 1), "s"
    return work[metric] / seconds, UNITS.get(metric) or f"{work['item']}/s"


def measured(run: dict[str, list[Record]]) -> dict[str, list[Record]]:
    """Return the points of a run that were measured in every repetition."""
    return {name: records for name, records in run.items() if all(r["status"] == "measured" for r in records)}


@rfm.simple_test
class AccelbenchCheck(rfm.RunOnlyRegressionTest):
    """Measure a suite on one node and compare it with a stored run."""

    suite = variable(str, value="quick")
    device = variable(str, value="cpu")
    stored_run = variable(str, value="")
    tolerance = variable(float, value=0.1)

    descr = "accelbench: verified results, compared with a stored run"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "accelbench"
    time_limit = "4h"
    exclusive_access = True
    keep_files = ["run"]

    @run_after("init")
    def resolve_paths(self) -> None:
        # Later stages run in ReFrame's own folders.
        self.suite = str(Path(self.suite).resolve()) if self.suite.endswith(".toml") else self.suite
        self.stored_run = str(Path(self.stored_run).resolve()) if self.stored_run else ""

    @run_after("setup")
    def read_references(self) -> None:
        self.stored = measured(read_run(Path(self.stored_run))) if self.stored_run else {}

    @run_before("run")
    def set_options(self) -> None:
        self.executable_opts = ["run", "--suite", self.suite, "--device", self.device, "--out", "run"]

    @sanity_function
    def check_records(self) -> Any:
        errors = sn.extractall(r"^accelbench: (.+)", self.stderr, 1)
        if not (Path(self.stagedir) / "run" / "run.json").is_file():
            return sn.assert_true(False, f"no run was written: {' '.join(sn.evaluate(errors))}")
        info = json.loads((Path(self.stagedir) / "run" / "run.json").read_text(encoding="utf-8"))
        run = read_run(Path(self.stagedir) / "run")
        failed = [f"{name}: {r['reason']}" for name, records in run.items() for r in records if r["status"] == "failed"]
        lost = sorted(self.stored.keys() - measured(run).keys())
        return sn.all(
            [
                sn.assert_eq(info["status"], "finished"),
                sn.assert_eq(len(run), len(info["plan"]), "points without a record"),
                sn.assert_false(failed, f"failed: {'; '.join(failed)}"),
                sn.assert_false(lost, f"measured only in the stored run: {', '.join(lost)}"),
            ]
        )

    @run_before("performance")
    def set_references(self) -> None:
        references = {}
        for name, records in measured(read_run(Path(self.stagedir) / "run")).items():
            value, unit = result(records)
            self.perf_variables[name] = sn.make_performance_function(lambda measured=value: measured, unit)
            if name in self.stored:
                bounds = (None, self.tolerance) if records[0]["figure"] == "time" else (-self.tolerance, None)
                references[name] = (result(self.stored[name])[0], *bounds, unit)
        if references:
            self.reference = {self.current_partition.fullname: references}
