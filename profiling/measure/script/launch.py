"""Start of a user's script with the observation of `accelbench.profiling.attach` in its process."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from accelbench.profiling.attach import injected
from accelbench.profiling.child import child_environment
from accelbench.profiling.files import open_for_appending

MPI = "OMPI_COMM_WORLD_RANK,PMI_RANK"
ACCELERATE = f"RANK,{MPI},ACCELERATE_USE_CPU=0"  # the last one is set for a single process, which has no rank
TORCH_LAUNCHERS = {
    **dict.fromkeys(("torchrun", "torch.distributed.run", "torch.distributed.launch"), "RANK"),
    **dict.fromkeys(("accelerate", "accelerate.commands.launch"), ACCELERATE),
}
"""Programs, and modules after `python -m`, that start the ranks of a script, with the environment variables in which
they state the rank."""
RANK_VARIABLES = {
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun"), MPI),
    "srun": "SLURM_PROCID",
}
"""Environment variables in which other launchers state the rank."""
FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT")
"""Signals that are passed on to the script; Ctrl-C reaches it from the terminal."""


@contextmanager
def exchange_folder(parent: Path | None = None) -> Iterator[Path]:
    """Yield a private folder for events of the script and commands to it; its name ends with this process's PID.

    Ranks on other hosts use it if it is in a `parent` that all hosts share.
    """
    place = parent and parent.absolute()
    with tempfile.TemporaryDirectory(prefix="accelbench-", suffix=f"-{os.getpid()}", dir=place) as folder:
        for name in ("events", "commands"):
            os.close(open_for_appending(Path(folder, name), 0o600))
        yield Path(folder)


def rank_variables(command: Sequence[str]) -> str | None:
    """Return the environment variables that contain the rank if the command starts a launcher, else None."""
    program, *words = map(os.path.basename, command)
    module = next((word for option, word in itertools.pairwise(words) if option == "-m"), None)
    if program in RANK_VARIABLES:  # which may start another launcher on each node
        return next((TORCH_LAUNCHERS[word] for word in words if word in TORCH_LAUNCHERS), RANK_VARIABLES[program])
    return TORCH_LAUNCHERS.get(program) or TORCH_LAUNCHERS.get(module or "")


def rank_folders(folder: Path) -> dict[int, Path]:
    """Return the folders of the ranks that have started so far on this host."""
    # The file of events is the last one that a rank creates.
    found = (path for path in folder.iterdir() if not path.is_symlink() and (path / "events").exists())
    return {int(rank): path for path in found if (rank := path.name.partition("-")[0]).isdecimal()}


def start(command: Sequence[str], folder: Path, stdin: int | None = None) -> subprocess.Popen[bytes]:
    """Start the command with this process's streams, or another input; raise OSError if it cannot be started."""
    path = os.environ.get("PYTHONPATH")
    settings = {
        "ACCELBENCH_ATTACH": str(folder),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(Path(injected.__file__).parent), path])),
    }
    if path is not None:
        settings["ACCELBENCH_ATTACH_PYTHONPATH"] = path
    if variables := rank_variables(command):
        settings["ACCELBENCH_ATTACH_RANKS"] = variables
    return subprocess.Popen(command, stdin=stdin, env=child_environment(**settings))


@contextmanager
def signals_passed_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forward signals to the script, so that it alone decides what they do."""

    def forward(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGINT:
            process.send_signal(number)

    numbers = [signal.SIGINT, *(getattr(signal, name) for name in FORWARDED if hasattr(signal, name))]
    previous = {number: signal.signal(number, forward) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
