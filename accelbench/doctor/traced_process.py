"""Process that permits tracing by its parent, as workers do, until its standard input is closed."""

from __future__ import annotations

import os
import sys

from accelbench.profiling.host.pyspy import allow_tracing

if __name__ == "__main__":
    allow_tracing(os.getppid())
    sys.stdout.write("\n")
    sys.stdout.flush()
    sys.stdin.read()
