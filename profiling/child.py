"""Start of the Python processes of a run: without the modules of the current folder, and bound to their parent.

`python -P child.py PARENT MODULE ARGUMENT…` runs `python -m MODULE ARGUMENT…` without the current folder in the search
path, where somebody else may have put a `numpy.py`. PARENT is the PID of the process that started it, with which this
one ends, or 0.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from runpy import run_module

PR_SET_PDEATHSIG = 1  # prctl(2)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder that holds the package accelbench."""


def child_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module in a process which is killed when the thread that started it ends."""
    return _command(os.getpid(), module, *arguments)


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module in a process which outlives the one that started it."""
    return _command(0, module, *arguments)


def _command(parent: int, module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-P", os.path.abspath(__file__), str(parent), module, *arguments]


def die_with_parent(parent: int | None = None) -> None:
    """Have Linux kill this process with its parent, so that nothing is left behind to disturb the next measurement.

    A process with the PID of its parent ends at once if that parent has died before.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if parent is not None and os.getppid() != parent:
            os._exit(1)


def find_own_package() -> None:
    """Add the package accelbench of this file to the search path, before the installed packages."""
    if ROOT not in sys.path:
        installed = (place for place, entry in enumerate(sys.path) if entry.endswith("-packages"))
        sys.path.insert(next(installed, len(sys.path)), ROOT)


if __name__ == "__main__":
    if sys.argv[1] != "0":
        die_with_parent(int(sys.argv[1]))
    find_own_package()
    sys.argv = sys.argv[2:]
    run_module(sys.argv[0], run_name="__main__", alter_sys=True)
