"""End of a measuring process after its gate: `python -m accelbench.gate.cleanup FOLDER` in the same process.

It replaces the program of the measuring process, so that no other thread can start a process or write a file.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress

import psutil


def main() -> None:
    """Kill all descendants and delete the folder."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            process.kill()
    shutil.rmtree(sys.argv[1], ignore_errors=True)


if __name__ == "__main__":
    main()
    sys.exit(1)
