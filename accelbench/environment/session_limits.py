"""Limits of the session on this machine, as text: time, and the resources of a hosted notebook or a batch job."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from time import time
from typing import Literal, NamedTuple

from accelbench.output.format import seconds
from accelbench.profiling.machine.environment.container import hosted_notebook
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.text import format_bytes

LimitName = Literal["duration", "idle time", "CPU cores", "memory", "free disk", "GPUs"]
SLURM_END = "SLURM_JOB_END_TIME"
"""Variable with the end of the job's time limit, in seconds since 1970 (sbatch(1))."""
NO_LIMIT = "no limit known"


class TimeLimits(NamedTuple):
    """Longest duration of a session, and the time without input after which it is ended, as text."""

    duration: str = NO_LIMIT
    idle: str = NO_LIMIT


HOSTED = {
    "colab": TimeLimits(
        "12 h on Colab free of charge, at times less", "limited on Colab, to a time that is not published"
    ),
    "kaggle": TimeLimits("12 h on Kaggle, 9 h with a TPU"),
}
"""Time limits that the hosts of notebooks publish (2026: Colab's FAQ; Kaggle's documentation of notebooks)."""


def time_limits() -> TimeLimits:
    """Return the time limits by the host of the notebook, or by the batch system Slurm."""
    if host := hosted_notebook():
        return HOSTED[host]
    end = os.environ.get(SLURM_END, "")
    if not (end.isascii() and end.isdigit()):
        return TimeLimits()
    left = int(end) - time()
    return TimeLimits(f"{seconds(left)} until the end of the Slurm job") if left > 0 else TimeLimits()


def session_limits(environment: Environment) -> dict[LimitName, str]:
    """Return the limits on this machine, of which `environment` is the record, as text."""
    cpu, memory, limits = environment.cpu, environment.memory, environment.limits
    quota = f", quota of {limits.cpu_quota:g} CPUs" if limits.cpu_quota is not None else ""
    size = min(filter(None, [memory.total_bytes, limits.memory_bytes]))
    cards = ", ".join(gpu.name for gpu in environment.gpus)
    times = time_limits()
    return {
        "duration": times.duration,
        "idle time": times.idle,
        "CPU cores": f"{cpu.cores or 'unknown'}, {cpu.usable} usable logical CPUs{quota}",
        "memory": format_bytes(size),
        "free disk": format_bytes(shutil.disk_usage(Path.cwd()).free),
        "GPUs": f"{len(environment.gpus)}, {cards}" if cards else "none",
    }
