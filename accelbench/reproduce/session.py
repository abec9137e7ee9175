"""Limits of a session on the study's hosted runtime, compared with the limits on this machine."""

from __future__ import annotations

from typing import NamedTuple

from accelbench.environment.session_limits import LimitName, session_limits
from accelbench.profiling.machine.environment.collect import collect
from accelbench.reproduce.paper import Paper


class ComparedLimit(NamedTuple):
    """Limit of a session in the study and on this machine, as text."""

    limit: LimitName
    published: str
    """Published value; empty if unknown."""
    here: str


def compare_session(paper: Paper) -> list[ComparedLimit]:
    """Return the study's limits of a session with the limits on this machine; empty if the study has none."""
    here = session_limits(collect()) if paper.session else {}
    return [ComparedLimit(each.limit, each.published, here[each.limit]) for each in paper.session]
