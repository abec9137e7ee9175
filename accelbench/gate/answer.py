"""Answer of the gate about one node: its checks, the verdict by the worst of them, and the exit status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, get_args

from pydantic import Field

from accelbench.gate.hardware import HardwareClass
from accelbench.output.format import counted, read
from accelbench.output.plain_text import one_line
from accelbench.profiling.records.stored import Finite, Moment, Positive, Seconds, Stored
from accelbench.profiling.records.work import MainMetric

GATE_VERSION: Final = 1
GateStatus = Literal["pass", "warn", "fail", "unknown"]
GateResource = Literal["cpu", "gpu", "memory", "disk", "network"]
GateVerdict = Literal["fit", "unfit", "unknown"]
GateLevel = Literal["quick", "standard", "thorough"]
RESOURCES: tuple[GateResource, ...] = get_args(GateResource)
EXIT_STATUS: dict[GateVerdict, int] = {"fit": 0, "unfit": 1, "unknown": 2}
NPD_LENGTH = 80
"""Maximum length of the message of a node-problem-detector plug-in (`max_output_length`)."""
NAMED = 2
"""Maximum number of checks in the summary."""


class GateCheck(Stored):
    """One check of a node."""

    name: str
    """Name of the check; for a measurement, the name of its point."""
    kind: Literal["measurement", "health", "node"]
    """`measurement` for a benchmark, `health` for a counter or setting, `node` for the gate itself."""
    resource: GateResource | None = None
    """Resource of the node; null for the node as a whole."""
    status: GateStatus
    found: str
    """Finding as text, or the reason of an unknown status."""
    advice: str = ""
    """Remedy of a finding; empty if there is none."""
    figure: MainMetric | None = None
    """Kind of the measured metric; for `time`, a lower value is better."""
    value: Positive | None = None
    """Measured value in `unit`; null for a health check."""
    low: Positive | None = None
    """Lower end of the value's interval."""
    high: Positive | None = None
    """Upper end of the value's interval."""
    unit: str = ""
    limit: Annotated[Finite | None, Field(ge=0)] = None
    """Lowest value of a fit node in `unit`; for a time, the highest. Null if unknown."""
    source: str = ""
    """Origin of the limit: baseline, history, references or peak."""
    repetitions: list[Positive] = []
    """Value of each repetition, each measured in a new process."""
    noise: list[str] = []
    """Disturbances of the measurement."""
    decides: bool = True
    """Whether an unknown status makes the answer unknown: not of a health source or benchmark that the node lacks."""


class GateAnswer(Stored):
    """Answer of the gate, as printed by `--format json`."""

    gate_version: Literal[1] = GATE_VERSION
    """Version of this schema."""
    id: str
    """Unique ID of this answer."""
    node: str
    """Name of the node, from `--node` or the scheduler; empty if unknown."""
    level: GateLevel
    verdict: GateVerdict
    exit_status: Literal[0, 1, 2]
    """0 fit, 1 unfit, 2 unknown."""
    summary: str
    """Reason of the verdict in one line."""
    started: Moment
    wall_s: Seconds
    """Duration of the gate in seconds."""
    hardware: HardwareClass | None = None
    """Hardware of the node; null if nothing was measured."""
    attributes: dict[str, str] = {}
    """Facts by which nodes of a fleet may differ: driver, kernel, image, and the tags of `--tag`."""
    checks: list[GateCheck]

    def line(self) -> str:
        """Return the answer in one line."""
        node = f" {self.node}" if self.node else ""
        return one_line(f"accelbench gate {self.level}{node}: {self.verdict}: {self.summary}")

    def npd_line(self) -> str:
        """Return the message of a node-problem-detector plug-in."""
        line = one_line(f"{self.verdict}: {self.summary}")
        return line if len(line) <= NPD_LENGTH else f"{line[: NPD_LENGTH - 3]}..."


def verdict_of(checks: Sequence[GateCheck]) -> GateVerdict:
    """Return the verdict by the worst check; without any deciding check, it is unknown."""
    if any(check.status == "fail" for check in checks):
        return "unfit"
    deciding = [check for check in checks if check.status != "unknown" or check.decides]
    if not deciding or any(check.status == "unknown" for check in deciding):
        return "unknown"
    return "fit"


def summary_of(checks: Sequence[GateCheck], verdict: GateVerdict) -> str:
    """Return the reason of the verdict as text: the checks that decide it, or the number of passed ones."""
    if verdict == "fit":
        passed, warned = (sum(check.status == status for check in checks) for status in ("pass", "warn"))
        return counted(passed, "check") + " passed" + (f", {counted(warned, 'warning')}" if warned else "")
    status: GateStatus = "fail" if verdict == "unfit" else "unknown"
    deciding = [check for check in checks if check.status == status and (status == "fail" or check.decides)]
    deciding.sort(key=lambda check: check.kind != "node")
    texts = [f"{check.name}: {check.found}" if check.kind != "node" else check.found for check in deciding[:NAMED]]
    more = len(deciding) - NAMED
    return "; ".join(texts) + (f"; {more} more" if more > 0 else "") if texts else "nothing was checked"


def quantity(value: float, unit: str) -> str:
    """Return a value with its unit as text."""
    return read(value, unit).quantity
