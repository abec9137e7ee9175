"""The py-spy program: location, command line, output and failures.

Source: py-spy 0.4, `py-spy record --help`; ptrace(2), "Ptrace access mode checking"; `Documentation/admin-guide/LSM/
Yama.rst`.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import sys
from collections import Counter
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from accelbench.profiling.host.stacks import Stack, merge, parse_stacks
from accelbench.profiling.machine.environment.files import read_int, read_text
from accelbench.profiling.records.host import WINDOW_KINDS, WindowKind

OPTIONS: dict[WindowKind, tuple[str, ...]] = {
    "all": ("--idle",),
    "running": (),
    "gil": ("--gil",),
    "native": ("--idle", "--native"),
}

STARTED = "Sampling process"
"""Output of py-spy when it has found the interpreter and starts to sample."""
STOPPED = "Stopped sampling because"
"""Output of py-spy when a window ends early: py-spy was interrupted, or the process exited."""
PR_SET_PTRACER = 0x59616D61  # prctl(2): "Yama"


class SamplingError(Exception):
    """Failure of py-spy to sample; the message has the cause and the remedy."""


def find_pyspy() -> Path:
    """Return the path of py-spy: next to the interpreter, in the installed package `py-spy`, or on PATH.

    Raises SamplingError if there is none.
    """
    next_to_python = shutil.which("py-spy", path=str(Path(sys.executable).parent))
    found = next_to_python or _in_package() or shutil.which("py-spy")
    if found is None:
        raise SamplingError("py-spy is not installed for this interpreter: pip install py-spy")
    return Path(found)


def _in_package() -> str | None:
    """Return the program of the installed package, by `pip install --target` or by the package's list of files.

    With `--target`, pip moves the program to `bin` next to the package but does not update the list of files, whose
    entry (`../../bin/py-spy`) is then wrong.
    """
    try:
        package = distribution("py-spy")
    except PackageNotFoundError:
        return None
    listed = [package.locate_file(file.parent) for file in package.files or () if file.name == "py-spy"]
    places = [package.locate_file("bin"), *listed]
    return next((found for place in places if (found := shutil.which("py-spy", path=str(place)))), None)


def record_command(program: Path, kind: WindowKind, pid: int, rate_hz: int, seconds: int, output: Path) -> list[str]:
    """Return the command that samples a process at this rate into a file of collapsed stacks, one per line."""
    arguments = ["--pid", str(pid), "--rate", str(rate_hz), "--duration", str(seconds)]
    return [str(program), "record", *arguments, "--threads", *OPTIONS[kind], "--format", "raw", "--output", str(output)]


def allow_tracing(tracer: int) -> bool:
    """Permit the process `tracer` and its children to trace the calling process, which Yama's mode 1 (Ubuntu) forbids.

    The worker to be sampled calls it. Returns False if the kernel has no Yama and needs no permission.
    """
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(tracer), 0, 0, 0) == 0)


def explain(complaint: str, root: Path = Path("/")) -> str:
    """Return the cause of py-spy's failure, from its standard error, with the flag or command that fixes it."""
    if re.search(r"permission denied|operation not permitted|os error (1|13)\b", complaint, re.IGNORECASE):
        scope = read_int(root / "proc/sys/kernel/yama/ptrace_scope")
        yama = f" (kernel.yama.ptrace_scope is {scope})" if scope else ""
        return (
            f"py-spy is not permitted to trace the worker{yama}: run as the same user;  start the container with "
            "--cap-add=SYS_PTRACE; on the host: sudo sysctl kernel.yama.ptrace_scope=0"
        )
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    causes = [line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")]
    cause = causes[0] if causes else lines[-1] if lines else "no reason given"
    return f"py-spy could not sample the worker: {cause}"


def read_windows(folder: Path) -> dict[WindowKind, Counter[Stack]]:
    """Return all stacks in the folder, by kind of window; the sampler that wrote them may have died."""
    return {
        kind: merge(
            parse_stacks(path.read_text(encoding="utf-8", errors="replace"))
            for path in sorted(folder.glob(f"window-*-{kind}.txt"))
        )
        for kind in WINDOW_KINDS
    }


def library_bytes(pid: int, root: Path = Path("/")) -> int:
    """Return the total size in bytes of the programs and libraries whose code the process has mapped."""
    lines = (read_text(root / "proc" / str(pid) / "maps") or "").splitlines()
    mapped = {fields[5] for line in lines if len(fields := line.split(maxsplit=5)) == 6 and "x" in fields[1]}
    return sum(path.stat().st_size for name in mapped if (path := Path(name)).is_file())
