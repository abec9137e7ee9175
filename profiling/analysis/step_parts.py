"""Parts of a step of several replicas: compute, launch, input, wait for the slowest rank, and exchange.

The exchange is measured in two ways: as the difference of steps with and without it, and in isolation; collectives in a
trace are a third. The difference of the first two is the part of the exchange that is hidden behind computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from accelbench.profiling.analysis.bottleneck import decide
from accelbench.profiling.records.bottleneck import CAUSES, Bottleneck, Cause
from accelbench.profiling.records.step import IsolatedTimes, StepParts


def take_apart(
    step_s: float, seen: Sequence[IsolatedTimes], profiler_s: float | None = None, launching: float | None = None
) -> StepParts:
    """Return the parts of a step by what all ranks saw, rank 0 first.

    By the trace are `profiler_s`, its collectives, and `launching`, the share of launching in what is neither of them
    nor input. A host that waits for an exchange seems to launch: the exchange and the waiting that the trace does not
    show are taken out of it.
    """
    own = median(seen[0].apart_s)
    slowest = median(map(max, zip(*(rank.apart_s for rank in seen), strict=False)))
    exposed, alone = max(0.0, step_s - slowest), median(seen[0].alone_s)
    sources = {"with and without": exposed, "alone": alone}
    if profiler_s is not None:
        sources["profiler"] = profiler_s
    waited = min(seen[0].input_s, own)
    launch = None
    if launching is not None:
        shown = profiler_s or 0.0
        unseen = max(0.0, step_s - own - shown)
        launch = min(own - waited, max(0.0, launching * (step_s - shown - waited) - unseen))
    return StepParts(
        step_s=step_s,
        compute_s=own - waited - (launch or 0.0),
        launch_s=launch,
        input_s=waited,
        wait_s=slowest - own,
        exposed_s=exposed,
        hidden_s=max(0.0, alone - exposed),
        exchange_s=sources,
        bytes=seen[0].bytes,
        unexplained_s=step_s - slowest - alone,
    )


def with_exchange(seen: Bottleneck, parts: StepParts) -> Bottleneck:
    """Return one rank's verdict with its step's time shared out anew: what it waits for others is communication.

    A trace shows a host that waits for an exchange as one that starts no work: where the trace shows less exchange than
    there is, what is missing comes out of dispatch first.
    """
    communication = min(1.0, (parts.wait_s + parts.exposed_s) / parts.step_s)
    of_input = min(1.0 - communication, parts.input_s / parts.step_s)
    own = {cause: share for cause, share in seen.shares.items() if cause not in ("communication", "input")}
    rest = 1.0 - communication - of_input
    excess = max(0.0, sum(own.values()) - rest)
    own["dispatch"] = max(0.0, own.get("dispatch", 0.0) - excess)
    whole = sum(own.values())
    shares: dict[Cause, float] = (
        {cause: rest * share / whole for cause, share in own.items()} if whole else {"device": rest}
    )
    shares |= {"communication": communication, "input": of_input}
    source = "steps with and without exchange"
    text = f"{source}: communication {communication:.0%}" + (f"; {seen.shares_text}" if seen.shares_text else "")
    evidence = seen.model_copy(update={"shares_text": text})
    return decide({cause: np.array([shares.get(cause, 0.0)]) for cause in CAUSES}, source, evidence)
