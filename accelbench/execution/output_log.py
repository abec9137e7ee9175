"""Log of a process: the beginning and the end of its output, which is read through a pipe."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from threading import Lock, Thread

from accelbench.profiling.files import open_for_appending

HEAD_BYTES, END_BYTES = 1 << 20, 1 << 18
"""Maximum stored bytes of the beginning and of the end of a process's output."""
MAX_FILE_BYTES = 64 << 20
"""Maximum size of a log, to which several processes append one after the other."""
CHUNK = 1 << 16
MAX_PIPE_BYTES = 1 << 20
"""Maximum bytes read after the process's end, as in a full pipe: a process outside its group may never stop writing."""


class OutputLog:
    """Output of one process, read by a thread until `close`."""

    def __init__(self, path: Path | None, show: bool = False) -> None:
        """Open the log (None: no file), and start the thread that reads the output from the descriptor `output`.

        With `show`, all output is also copied to standard output.
        """
        self._show = show
        self._file = os.open(os.devnull, os.O_WRONLY) if path is None else open_for_appending(path)
        self._file_room = 0 if path is None else max(0, MAX_FILE_BYTES - os.lseek(self._file, 0, os.SEEK_END))
        self._head_room = min(HEAD_BYTES, self._file_room)
        self._end = bytearray()
        self._unstored = 0
        self._pipe, self.output = os.pipe()
        os.set_blocking(self._pipe, False)
        self._closing, self._close = os.pipe()
        self._lock = Lock()
        self._reader = Thread(target=self._read, name="output log", daemon=True)
        self._reader.start()

    def started(self) -> None:
        """Close this process's copy of `output`, after the process has inherited it."""
        os.close(self.output)

    def last_bytes(self, count: int) -> bytes:
        """Return the last `count` bytes of the output."""
        with self._lock:
            self._take(MAX_PIPE_BYTES)
            return bytes(self._end[-count:])

    def close(self) -> None:
        """Store the end of the output, even if a process still holds the pipe open."""
        os.close(self._close)
        self._reader.join()
        self._take(MAX_PIPE_BYTES)
        end = self._end[len(self._end) - min(self._unstored, END_BYTES, self._file_room) :]
        if left_out := self._unstored - len(end):
            self._store(f"\n[accelbench: {left_out:,} bytes left out]\n".encode())
        self._store(end)
        for descriptor in (self._pipe, self._closing, self._file):
            os.close(descriptor)

    def _read(self) -> None:
        with DefaultSelector() as selector:
            selector.register(self._pipe, EVENT_READ)
            selector.register(self._closing, EVENT_READ)
            while not any(key.fd == self._closing for key, _ in selector.select()):
                with self._lock:
                    if not self._take(CHUNK):
                        selector.unregister(self._pipe)

    def _take(self, count: int) -> bool:
        """Read up to `count` bytes from the pipe; return False at its end."""
        while count > 0:
            try:
                data = os.read(self._pipe, CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            count -= len(data)
            if self._show:
                with suppress(OSError):  # the log continues if the terminal is closed
                    sys.stdout.buffer.write(data)
                    sys.stdout.flush()
            head = data[: self._head_room]
            self._store(head)
            self._head_room -= len(head)
            self._file_room -= len(head)
            self._unstored += len(data) - len(head)
            self._end += data
            if len(self._end) > 2 * END_BYTES:
                del self._end[:-END_BYTES]
        return True

    def _store(self, data: bytes | bytearray) -> None:
        with suppress(OSError):  # on a full disk the log is incomplete; only an unstored record ends the run
            os.write(self._file, data)
