"""An HTTP server on the loopback interface, and data sets that it serves."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from accelbench.workloads.data.sources import SOURCES, File, Source

NOWHERE = "http://127.0.0.1:9/"
"""The discard port, on which nothing listens."""


@dataclass
class Served:
    """Files, behaviour and recorded requests of the server."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    breaks_after: int | None = None
    """Bytes of a response after which the connection is closed, although more were announced."""
    length_known: bool = True
    endless: bool = False
    """Whether the content is sent repeatedly, until the client disconnects."""
    trickles: bool = False
    """Whether the content is sent byte by byte, at 100 bytes per second."""
    stalls_after: int | None = None
    """Bytes of a response after which nothing more is sent on the open connection."""
    sent: int = 0
    """Bytes accepted by clients, in all responses."""
    gate: threading.Event | None = None
    """Event for which responses wait."""
    asked: list[str | None] = field(default_factory=list)
    """Range header of every request."""


@contextmanager
def serving() -> Iterator[Served]:
    served = Served()
    done = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            served.asked.append(wanted)
            if served.gate is not None:
                served.gate.wait(30)
            content = served.files.get(self.path.lstrip("/"))
            if content is None:
                self.send_error(404)
                return
            begin = int(re.findall(r"bytes=(\d+)-", wanted)[0]) if wanted and served.ranges else 0
            if begin and begin >= len(content):
                self.send_error(416)
                return
            self.send_response(206 if begin else 200)
            if begin:
                self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
            if served.length_known and not served.endless:
                self.send_header("Content-Length", str(len(content) - begin))
            self.end_headers()
            end = None if served.breaks_after is None else begin + served.breaks_after
            with suppress(ConnectionError):
                for piece in self.pieces(content[begin:end]):
                    self.wfile.write(piece)
                    served.sent += len(piece)

        def pieces(self, content: bytes) -> Iterator[bytes]:
            if served.trickles:
                for place in range(len(content)):
                    yield content[place : place + 1]
                    time.sleep(0.01)
            elif served.stalls_after is not None:
                yield content[: served.stalls_after]
                done.wait(30)
            else:
                yield content
                while served.endless:
                    yield content

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_port}/"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield served
    finally:
        done.set()
        server.shutdown()
        server.server_close()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def declare(monkeypatch: pytest.MonkeyPatch, name: str, *contents: bytes, url: str = NOWHERE, **changes: Any) -> Source:
    """Replace the files of the data set `name` by these contents, at `url` under their own names."""
    files = tuple(
        replace(file, url=url + file.path.name, sha256=sha256(content), size=len(content), inner_sha256=None, **changes)
        for file, content in zip(SOURCES[name].files, contents, strict=True)
    )
    return redeclare(monkeypatch, name, files)


def redeclare(monkeypatch: pytest.MonkeyPatch, name: str, files: tuple[File, ...]) -> Source:
    source = replace(SOURCES[name], files=files)
    monkeypatch.setitem(SOURCES, name, source)
    return source
