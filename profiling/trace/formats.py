"""Trace formats: the files of each, their reader and viewers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from accelbench.profiling.trace import chrome, xplane
from accelbench.profiling.trace.lines import Trace


@dataclass(frozen=True)
class TraceFormat:
    """A trace format."""

    files: str
    """Pattern of the files in a trace folder."""
    read: Callable[[Path], Trace]
    """Function that reads a file; raises Unreadable."""
    viewers: str
    """Programs that show a trace, as text."""
    no_xprof: str | None = None
    """Reason why xprof, and thus TensorBoard's profile plug-in, does not support it; None if it does."""

    @property
    def suffix(self) -> str:
        return self.files.rpartition("*")[2]


XPLANE = TraceFormat(f"plugins/profile/*/*{xplane.SUFFIX}", xplane.XplaneTrace, "TensorBoard")
"""Format of TensorFlow and JAX."""
CHROME = TraceFormat(chrome.FILES, chrome.ChromeTrace, "ui.perfetto.dev", "xprof does not support PyTorch's traces")
"""Format of PyTorch."""
FORMATS = (XPLANE, CHROME)


def format_of(file: str) -> TraceFormat:
    """Return the format of a trace by the name of its file."""
    return next((found for found in FORMATS if file.endswith(found.suffix)), XPLANE)


def open_trace(file: Path) -> Trace:
    """Read a trace of any format; raise Unreadable if it is invalid."""
    return format_of(file.name).read(file)


def newest(folder: Path) -> Path | None:
    """Return the newest trace in the folder; None without a trace."""
    files = sorted(file for form in FORMATS for file in folder.glob(form.files))
    return files[-1] if files else None
