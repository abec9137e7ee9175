"""A notice near the top of the page that points failed, which leads to their reasons."""

from __future__ import annotations

from accelbench.report.section import InPage, Section

NOTICE = """\
<p class="notice" role="note"><strong>{{ found }} point{{ "s" if found > 1 }} failed.</strong> \
<a href="#unmeasured">See which, and why.</a></p>
"""

section = Section(find=lambda run: run.counts.failed, page=InPage(20, template=NOTICE))
