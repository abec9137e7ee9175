"""The section that tells how to read the figures of the page, and how to repeat the run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from accelbench.format import plain
from accelbench.report.section import InPage, Run, Section


def _content(found: Run, run: Run) -> Mapping[str, Any]:
    return {"whole_run": plain(shlex.join(run.info.command))}


section = Section(find=lambda run: run, page=InPage(120, "method", "Method", _content))
