"""Run a suite of accelbench as a regression test of ReFrame (pip install reframe-hpc; 4.0 or newer).

    reframe -c containers/reframe/accelbench_check.py -r --performance-report \
        -S suite=kernels -S stored_run=$PWD/runs/ACCEPTED -S tolerance=0.05 \
        -S executable="apptainer exec $PWD/containers/build/accelbench-cpu.sif accelbench"

*Sanity* is that every point was verified: no answer is wrong, none is missing, and none is unmeasured that was
measured in the stored run. *Performance* is each measured point's figure, its reference the stored run's figure of
the same point: a test fails that loses more than `tolerance` of it. Without `stored_run` figures are only reported.
The run is kept in ReFrame's output folder until the test's next run, so that `accelbench compare` can tell a loss from
noise; a copy of it can be the next stored run. ReFrame needs no accelbench of its own for all this. A site's
configuration file (-C) says how jobs start, `-S num_cpus_per_task=64` or `-S num_gpus_per_node=1` what they get.
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
    """Return the records of each point of a run, by the point's name: one for each round, the last that was written."""
    lines = (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
    rounds = {(point_name(record), record["round"]): record for record in map(json.loads, lines)}
    points: dict[str, list[Record]] = {}
    for (name, _), record in rounds.items():
        points.setdefault(name, []).append(record)
    return points


def point_name(record: Record) -> str:
    """Say `matmul cpu impl=vendor n=2048`."""
    point = record["point"]
    where = [point["benchmark"], point["device"], point["backend"]]
    return " ".join([word for word in where if word] + [f"{axis}={value}" for axis, value in point["params"].items()])


def figure(rounds: list[Record]) -> tuple[float, str]:
    """Return the point's leading figure, the median over its rounds, and its unit."""
    figures = [figure_of_round(record) for record in rounds]
    return median(value for value, _ in figures), figures[0][1]


def figure_of_round(record: Record) -> tuple[float, str]:
    """Return work per second, or the time of one item; a training's time is the mean of its steady steps."""
    timing, work, what = record["timing"], record["work"] or {}, record["figure"]
    steady = timing.get("steady")
    seconds = steady["seconds"] / steady["steps"] if steady else timing["summary"]["median"]
    if what == "time":
        return seconds / (work.get("items") or 1), "s"
    return work[what] / seconds, UNITS.get(what) or f"{work['item']}/s"


def measured(run: dict[str, list[Record]]) -> dict[str, list[Record]]:
    """Return the points of a run that were measured in every round."""
    return {name: rounds for name, rounds in run.items() if all(r["status"] == "measured" for r in rounds)}


@rfm.simple_test
class AccelbenchCheck(rfm.RunOnlyRegressionTest):
    """Measure a suite on one node and hold it against a stored run."""

    suite = variable(str, value="quick")
    device = variable(str, value="cpu")
    stored_run = variable(str, value="")
    tolerance = variable(float, value=0.1)

    descr = "accelbench: verified answers, and speed against a stored run"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "accelbench"
    time_limit = "4h"
    exclusive_access = True
    keep_files = ["run"]

    @run_after("init")
    def find_the_files(self) -> None:
        # From here on ReFrame works in folders of its own.
        self.suite = str(Path(self.suite).resolve()) if self.suite.endswith(".toml") else self.suite
        self.stored_run = str(Path(self.stored_run).resolve()) if self.stored_run else ""

    @run_after("setup")
    def read_the_references(self) -> None:
        self.stored = measured(read_run(Path(self.stored_run))) if self.stored_run else {}

    @run_before("run")
    def measure_the_suite(self) -> None:
        self.executable_opts = ["run", "--suite", self.suite, "--device", self.device, "--out", "run"]

    @sanity_function
    def every_answer_is_right(self) -> Any:
        said = sn.extractall(r"^accelbench: (.+)", self.stderr, 1)
        if not (Path(self.stagedir) / "run" / "run.json").is_file():
            return sn.assert_true(False, f"there is no run: {' '.join(sn.evaluate(said))}")
        info = json.loads((Path(self.stagedir) / "run" / "run.json").read_text(encoding="utf-8"))
        run = read_run(Path(self.stagedir) / "run")
        failed = [f"{name}: {r['reason']}" for name, rounds in run.items() for r in rounds if r["status"] == "failed"]
        lost = sorted(self.stored.keys() - measured(run).keys())
        return sn.all(
            [
                sn.assert_eq(info["status"], "finished"),
                sn.assert_eq(len(run), len(info["plan"]), "points without a record"),
                sn.assert_false(failed, f"failed: {'; '.join(failed)}"),
                sn.assert_false(lost, f"measured in the stored run, but not now: {', '.join(lost)}"),
            ]
        )

    @run_before("performance")
    def hold_against_the_stored_run(self) -> None:
        references = {}
        for name, rounds in measured(read_run(Path(self.stagedir) / "run")).items():
            value, unit = figure(rounds)
            self.perf_variables[name] = sn.make_performance_function(lambda found=value: found, unit)
            if name in self.stored:
                bounds = (None, self.tolerance) if rounds[0]["figure"] == "time" else (-self.tolerance, None)
                references[name] = (figure(self.stored[name])[0], *bounds, unit)
        if references:
            self.reference = {self.current_partition.fullname: references}
