"""Begin of the observation in the script's process."""

from __future__ import annotations

import os
import sys

from . import jax, keras, tensorflow, torch
from .imports import ImportWatch
from .session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

WORLD = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
"""Environment variables with the number of ranks."""
FRAMEWORKS = ("keras", "torch", "tensorflow", "jax")


def begin(folder: str) -> None:
    """Start a session that writes to the folder, and add each framework's hooks when the script imports it."""
    session = Session(folder)
    Session.current = session
    os.register_at_fork(after_in_child=session.forget)
    session.emit("hello", os.getpid(), os.uname().nodename, os.getcwd(), sys.prefix, sys.base_prefix, *sys.orig_argv)
    size = next((os.environ[name] for name in WORLD if os.environ.get(name, "").isdecimal()), "1")
    session.emit("world", int(size))
    _allow_tracing(session.tracer_pid)
    found = {**jax.hooks(session), **torch.hooks(session), **tensorflow.hooks(session), **keras.hooks(session)}
    hooks = {name: _guarded(session, add_hooks) for name, add_hooks in found.items()}
    for name in FRAMEWORKS:
        if name in sys.modules:  # in a notebook
            session.importing(name)
    watch = ImportWatch(hooks, set(FRAMEWORKS), session.importing)
    session.on_detach(watch.remove)
    session.flush()


def _guarded(session: Session, add_hooks: Callable[[ModuleType], object]) -> Callable[[ModuleType], None]:
    """Return the function with a guard: a version of a framework that it does not fit must not fail to be imported."""

    def guarded(module: ModuleType) -> None:
        session.guarded(add_hooks, module)

    return guarded


def _allow_tracing(pid: int) -> None:
    """Permit py-spy, a child of the process `pid`, to read this process where Yama restricts it to descendants."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            restricted = file.read().strip() == "1"
    except OSError:
        return  # a kernel without Yama needs no permission
    if restricted:
        import ctypes

        ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(pid), 0, 0, 0)
