"""Repetition of the property-based tests with new random seeds: `make fuzz MINUTES=60`.

Each seed is printed before its pass. A failure prints its counterexample and the command that repeats the pass; add the
counterexample to its test as an explicit `@example`.
"""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import sys
import time

PYTEST = (sys.executable, "-m", "pytest", "-q", "-o", "timeout=3600", "-m", "hypothesis and not gpu and not container")


def main(minutes: float, options: list[str]) -> int:
    """Run passes until the time is over; return 1 if a pass failed, else 0."""
    end = time.monotonic() + 60 * minutes
    failed = []
    passes = 0
    while time.monotonic() < end:
        command = [*PYTEST, f"--hypothesis-seed={secrets.randbits(64)}", *options]
        print(f"HYPOTHESIS_PROFILE=fuzz {shlex.join(command)}", flush=True)
        passes += 1
        if subprocess.run(command, env={**os.environ, "HYPOTHESIS_PROFILE": "fuzz"}).returncode:
            failed.append(command)
    print(f"{passes} passes, {len(failed)} failed")
    for command in failed:
        print(f"failed: HYPOTHESIS_PROFILE=fuzz {shlex.join(command)}")
    return min(1, len(failed))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
