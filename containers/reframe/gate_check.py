"""Run the gate of accelbench as a regression test of ReFrame (pip install reframe-hpc; 4.0 or newer).

    reframe -c containers/reframe/gate_check.py -r --performance-report \
        -S level=standard -S baseline=$PWD/site.toml -S executable="accelbench"

*Sanity*: the node is fit; otherwise the gate's reason is the error. *Performance*: the value of each measurement; its
reference is the gate's limit (`--baseline`, stored runs, published references, or the vendor's peak), so ReFrame and
the gate accept the same values. A measurement without a limit is only reported. ReFrame's own Python needs no
accelbench. ReFrame keeps the gate's answers, which `accelbench fleet` reads, in its output folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_after, run_before, sanity_function, variable

ANSWER = "gate.json"


@rfm.simple_test
class GateCheck(rfm.RunOnlyRegressionTest):
    """Check whether a node is fit for the next job."""

    level = variable(str, value="quick")
    only = variable(str, value="")
    baseline = variable(str, value="")
    suite = variable(str, value="")
    include_noisy = variable(bool, value=False)

    descr = "accelbench: is this node fit"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "accelbench"
    time_limit = "30m"
    exclusive_access = True
    keep_files = [ANSWER]

    @run_after("init")
    def resolve_paths(self) -> None:
        # Later stages run in ReFrame's own folders.
        self.baseline = str(Path(self.baseline).resolve()) if self.baseline else ""
        self.suite = str(Path(self.suite).resolve()) if self.suite else ""

    @run_before("run")
    def set_options(self) -> None:
        options = {"--level": self.level, "--only": self.only, "--baseline": self.baseline, "--suite": self.suite}
        words = [word for name, value in options.items() if value for word in (name, value)]
        noisy = ["--include-noisy"] * self.include_noisy
        self.executable_opts = ["gate", "--format", "json", *words, *noisy, f">{ANSWER}"]

    def answer(self) -> dict[str, Any]:
        """Return the gate's answer; empty if it printed none."""
        try:
            found: dict[str, Any] = json.loads((Path(self.stagedir) / ANSWER).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found

    @sanity_function
    def check_verdict(self) -> Any:
        answer = self.answer()
        errors = sn.evaluate(sn.extractall(r"^accelbench: (.+)", self.stderr, 1))
        reason = answer.get("summary") or " ".join(errors) or "the gate printed no answer"
        return sn.assert_eq(answer.get("verdict"), "fit", f"{answer.get('verdict', 'unknown')}: {reason}")

    @run_before("performance")
    def set_references(self) -> None:
        references = {}
        for check in self.answer().get("checks", []):
            if check["value"] is None:
                continue
            name, value, unit, limit = (check[field] for field in ("name", "value", "unit", "limit"))
            low, high = check["low"], check["high"]
            self.perf_variables[name] = sn.make_performance_function(lambda measured=value: measured, unit)
            if limit:
                # As in the gate, a value whose interval reaches the limit is a warning and no failure.
                bounds = (
                    (None, (value - low) / limit)
                    if check["figure"] == "time"
                    else (-min(1.0, (high - value) / limit), None)
                )
                references[name] = (limit, *bounds, unit)
        if references:
            self.reference = {self.current_partition.fullname: references}
