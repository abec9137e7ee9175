"""`python -m tests.ptx FILE.py [SEEDS]` executes a kernel of one's own, in several orders of its warps.

FILE.py has a function `run(device, seed)`, which loads PTX (`device.load`, `sources.compile_cuda`), launches it with
that seed and checks the results. The exit status is 1 if an execution has a defect.
"""

from __future__ import annotations

import runpy
import sys

from tests.ptx.machine import Device, PtxError


def main(arguments: list[str]) -> int:
    """Execute the file's function with each seed; print the first defect, if there is one."""
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    run = runpy.run_path(arguments[0])["run"]
    seeds = range(1, int(arguments[1]) + 1 if len(arguments) == 2 else 9)
    for seed in seeds:
        try:
            run(Device(), seed)
        except PtxError as error:
            print(f"seed {seed}: {error}", file=sys.stderr)
            return 1
    print(f"no defect in {len(seeds)} executions")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
