"""End of a measuring process after its gate: `python -m accelbench.gate.cleanup FOLDER` in the same process.

It replaces the program of the measuring process, so that no other thread can start a process or write a file.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress

import psutil

KILLED_S = 10.0
"""Seconds to wait for the end of killed processes."""


def main() -> None:
    """Kill all descendants and delete the folder."""
    descendants = psutil.Process().children(recursive=True)
    for process in descendants:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(descendants, timeout=KILLED_S)  # one that still ends could write to the folder
    shutil.rmtree(sys.argv[1], ignore_errors=True)


if __name__ == "__main__":
    main()
    sys.exit(1)
