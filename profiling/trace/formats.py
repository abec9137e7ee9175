"""Trace formats: the files of each, their reader and viewers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from accelbench.profiling.trace import chrome, xplane
from accelbench.profiling.trace.lines import Trace


@dataclass(frozen=True)
class TraceFormat:
    """One format of traces."""

    files: str
    """The files, as a pattern within a trace's folder."""
    read: Callable[[Path], Trace]
    """Opens a file; raises `Unreadable`."""
    viewers: str
    """The programs that show a trace, in words."""
    no_xprof: str | None = None
    """The reason why xprof, and so TensorBoard's profile plug-in, does not read it; None where it does."""

    @property
    def suffix(self) -> str:
        return self.files.rpartition("*")[2]


XPLANE = TraceFormat(f"plugins/profile/*/*{xplane.SUFFIX}", xplane.XplaneTrace, "TensorBoard")
"""What TensorFlow and JAX write."""
CHROME = TraceFormat(chrome.FILES, chrome.ChromeTrace, "ui.perfetto.dev", "xprof reads no traces of PyTorch's")
"""What PyTorch writes."""
FORMATS = (XPLANE, CHROME)


def format_of(file: str) -> TraceFormat:
    """Return the format of a trace by the name of its file."""
    return next((found for found in FORMATS if file.endswith(found.suffix)), XPLANE)


def open_trace(file: Path) -> Trace:
    """Return the trace in the file, whatever its format; Unreadable if it is none."""
    return format_of(file.name).read(file)


def newest(folder: Path) -> Path | None:
    """Return the last trace that was written under the folder; None where there is none."""
    files = sorted(file for form in FORMATS for file in folder.glob(form.files))
    return files[-1] if files else None
