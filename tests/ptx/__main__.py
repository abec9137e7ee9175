"""`python -m tests.ptx FILE.py [SEEDS]` executes a kernel of one's own, in several orders of its warps.

FILE.py has a function `run(device, seed)`, which loads PTX (`device.load`, `sources.compile_cuda`), launches it with
that seed and checks the results. The exit status is 1 if an execution has a defect, 2 for invalid arguments.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.ptx.machine import Device, PtxError

SEEDS = 8


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute the file's function with each seed; print the first defect, if there is one."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.ptx", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="Python file with a function run(device, seed)")
    parser.add_argument("seeds", type=int, nargs="?", default=SEEDS, help=f"number of executions (default: {SEEDS})")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"seeds: {options.seeds} executions (choose 1 or more)")
    if not options.file.is_file():
        parser.error(f"{options.file} is no file")
    run = runpy.run_path(str(options.file)).get("run")
    if not callable(run):
        parser.error(f"{options.file} has no function run(device, seed)")
    for seed in range(1, options.seeds + 1):
        try:
            run(Device(), seed)
        except PtxError as error:
            print(f"seed {seed}: {error}", file=sys.stderr)
            return 1
    print(f"no defect in {options.seeds} executions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
