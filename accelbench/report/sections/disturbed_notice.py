"""A notice near the top of the page that points were disturbed, which leads to what disturbed them."""

from __future__ import annotations

from accelbench.report.section import InPage, Section

NOTICE = """\
<p class="notice disturbed" role="note"><strong>{{ found }} point{{ "s were" if found > 1 else " was" }} \
disturbed.</strong> Such a figure sets no ceiling and may not come out again. <a href="#flags">See what disturbed \
{{ "them" if found > 1 else "it" }}</a>; <code>accelbench doctor</code> tells how to quieten this machine.</p>
"""

section = Section(find=lambda run: run.counts.disturbed, page=InPage(5, template=NOTICE))
