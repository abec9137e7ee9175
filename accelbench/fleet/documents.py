"""Answers of the gate on standard input: JSON documents, one per line or concatenated."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from accelbench.errors import UserError
from accelbench.profiling.files import MAX_TEXT_BYTES
from accelbench.profiling.text import format_bytes

MAX_INPUT_BYTES = 512 << 20
_NEXT = re.compile(r"\n(?=\{)")
_TEXT = re.compile(r"\S")


def read_documents(stream: BinaryIO) -> Iterator[str]:
    """Yield each JSON document of a stream, and the invalid text between documents.

    An invalid document ends before the next line that starts with a brace; a document longer than `MAX_TEXT_BYTES` is
    cut off and thereby invalid. Raises UserError for more than `MAX_INPUT_BYTES`.
    """
    content = stream.read(MAX_INPUT_BYTES + 1)
    if len(content) > MAX_INPUT_BYTES:
        most = format_bytes(MAX_INPUT_BYTES)
        raise UserError(f"standard input has more than {most}: write the answers to files, and name their folder")
    text = content.decode("utf-8", errors="replace")
    decoder = json.JSONDecoder()
    place = 0
    while found := _TEXT.search(text, place):
        begin = found.start()
        try:
            _, place = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):
            following = _NEXT.search(text, begin)
            place = following.end() if following else len(text)
        yield text[begin : min(place, begin + MAX_TEXT_BYTES)]
