"""A report as one page without links to other files, for a frame in a notebook."""

from __future__ import annotations

import re
from base64 import b64encode
from html import escape, unescape
from mimetypes import guess_type
from pathlib import Path
from urllib.parse import unquote

from accelbench.profiling.files import read_regular

LARGEST_BYTES = 4 << 20
"""Maximum size of an embedded file; browsers refuse long URIs."""
PAGE_BYTES = 64 << 20
"""Maximum size of the page."""
LINK = re.compile(r'<a href="\./([^"]*)">(.*?)</a>', re.DOTALL)
"""Link of a page to a file or folder next to it."""


def embedded_page(page: Path) -> str:
    """Return the HTML of a report, with the files that it links to.

    A linked file becomes a download (data URI). A link to a folder, or to a file that is missing or too large, becomes
    text. Raises OSError if the page cannot be read.
    """
    text = read_regular(page, PAGE_BYTES).decode("utf-8")
    return LINK.sub(lambda link: _embedded(page.parent, unquote(unescape(link[1])), link[2]), text)


def _embedded(folder: Path, name: str, text: str) -> str:
    file = folder / name
    try:
        if not file.resolve().is_relative_to(folder.resolve()):
            return text
        content = b64encode(read_regular(file, LARGEST_BYTES)).decode("ascii")
    except OSError:
        return text
    kind = guess_type(file.name)[0] or "application/octet-stream"
    return f'<a download="{escape(file.name)}" href="data:{kind};base64,{content}">{text}</a>'
