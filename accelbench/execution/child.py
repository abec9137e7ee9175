"""The beginning of a process that ends with its parent: it is bound before anything that takes time is imported.

`python -m accelbench.execution.child PARENT MODULE ARGUMENT…` is `python -m MODULE ARGUMENT…`, but for that. PARENT is
the PID of the process that started it: where that is dead already, this one ends at once.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from runpy import run_module

PR_SET_PDEATHSIG = 1  # prctl(2)


def child_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs the module in a process bound to this one."""
    return [sys.executable, "-m", __name__, str(os.getpid()), module, *arguments]


def die_with_parent(parent: int | None = None) -> None:
    """Have Linux kill this process with its parent, so that nothing is left behind to disturb the next measurement.

    A process that knows its parent by number ends at once if that has died before.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if parent is not None and os.getppid() != parent:
            os._exit(1)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    sys.argv = sys.argv[2:]
    run_module(sys.argv[0], run_name="__main__", alter_sys=True)
