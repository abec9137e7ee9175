"""Start of Python child processes: they import nothing from the current folder and end with their parent.

`python -P child.py PARENT MODULE ARGUMENT…` runs `python -m MODULE ARGUMENT…` without the current folder in the search
path, since another user may have placed a `numpy.py` there. PARENT is the PID of the parent process with which the
child ends, or 0 for none.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from runpy import run_module

PR_SET_PDEATHSIG = 1  # prctl(2)
SECRET = "ACCELBENCH_SECRET"
"""The environment variable with the secret of all ranks of a run; no process that runs a benchmark needs it."""
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder that contains the package accelbench."""


def child_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module in a process which is killed when the starting thread ends."""
    return _command(os.getpid(), module, *arguments)


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module in a process which may outlive its parent."""
    return _command(0, module, *arguments)


def child_environment(**settings: str) -> dict[str, str]:
    """Return the environment variables of a child: those of this process without the secret of its ranks."""
    return {name: value for name, value in os.environ.items() if name != SECRET} | settings


def _command(parent: int, module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-P", os.path.abspath(__file__), str(parent), module, *arguments]


def die_with_parent(parent: int | None = None) -> None:
    """Make Linux kill this process when its parent ends, so that it cannot disturb the next measurement.

    With `parent`, the expected PID of the parent, the process ends at once if that parent has already died.
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
