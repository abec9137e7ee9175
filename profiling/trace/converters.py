"""Analysis of a trace by xprof's converters, as a program: `python -m accelbench.profiling.trace.converters FILE`.

It is a separate process because the converters, written in C++, abort the process on unexpected input.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from accelbench.profiling.records.trace import Operation, XprofFindings, XprofSteps
from accelbench.profiling.trace.operations import longest

COLUMNS = {
    "deviceComputeTimeMs": "device compute",
    "deviceToDeviceTimeMs": "device to device",
    "deviceCollectivesTimeMs": "device collectives",
    "hostComputeTimeMs": "host compute",
    "kernelLaunchTimeMs": "kernel launch",
    "infeedTimeMs": "input",
    "outfeedTimeMs": "output",
    "compileTimeMs": "compilation",
    "otherTimeMs": "all others",
}
"""Parts of a step by xprof's columns; `input` includes waiting for input and copying it to the device."""


def convert(file: Path) -> XprofFindings:
    """Return the findings of xprof's overview, operation table and memory profile."""
    with TemporaryDirectory() as folder:
        # The converters write next to the file that they read, so they get a link in a temporary folder.
        link = Path(folder) / file.name
        link.symlink_to(file.resolve())
        overview = step_table(run_tool("overview_page", link))
        table = table_of_operations(run_tool("framework_op_stats", link))
        memory = run_tool("memory_profile", link)
    properties = overview.get("p", {})
    return XprofFindings(
        version=version("xprof"),
        hardware=properties.get("hardware_type"),
        steps=mean_step(overview),
        input_verdict=plain(properties.get("input_conclusion", "")) or None,
        **longest(table),
        memory_peak_bytes=memory_peak(memory),
    )


def run_tool(tool: str, file: Path) -> Any:
    """Return the decoded JSON output of an xprof tool; an empty list without output."""
    from xprof.convert import raw_to_tool_data

    data, _ = raw_to_tool_data.xspace_to_tool_data([str(file)], tool, {})
    return json.loads(data) if data else []


def step_table(tables: Any) -> dict[str, Any]:
    """Return the overview's table with one row per step, whose properties include hardware and verdict."""
    found: dict[str, Any] = next((table for table in tables if "hardware_type" in table.get("p", {})), {})
    return found


def mean_step(overview: dict[str, Any]) -> XprofSteps | None:
    """Return the mean over the rows of the step-time table; None if xprof found no steps."""
    names = [column["id"] for column in overview.get("cols", [])]
    rows = [dict(zip(names, (cell["v"] for cell in row["c"]), strict=False)) for row in overview.get("rows", [])]
    if not rows:
        return None
    mean = {name: sum(float(row[name]) for row in rows) / len(rows) * 1e-3 for name in (*COLUMNS, "stepTimeMs")}
    return XprofSteps(
        steps=len(rows), step_s=mean.pop("stepTimeMs"), parts={COLUMNS[name]: value for name, value in mean.items()}
    )


def table_of_operations(tables: Any) -> list[Operation]:
    """Return the operations, without idle time."""
    # The last table is without idle time.
    table = tables[-1] if tables else {"cols": [], "rows": []}
    names = [column["id"] for column in table["cols"]]
    rows = (dict(zip(names, (cell["v"] for cell in row["c"]), strict=True)) for row in table["rows"])
    return [
        Operation(
            name=row["operation"],
            kind=row["type"],
            where="device" if row["host_or_device"] == "Device" else "host",
            occurrences=int(row["occurrences"]),
            self_s=row["total_self_time"] * 1e-6,
        )
        for row in rows
        if row["type"] != "IDLE"
    ]


def memory_peak(profile: Any) -> int | None:
    """Return the highest peak of all device allocators in bytes; None without a device allocator."""
    allocators = profile.get("memoryProfilePerAllocator", {}) if profile else {}
    peaks = [
        int(found.get("profileSummary", {}).get("peakStats", {}).get("peakBytesInUse", 0))
        for name, found in allocators.items()
        if "host" not in name.lower()
    ]
    return max(peaks) if any(peaks) else None


def plain(text: str) -> str:
    """Return the text without markup."""
    return re.sub(r"<[^>]*>", "", text).strip()


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        findings = convert(Path(sys.argv[1])).model_dump_json()
    print(findings)
