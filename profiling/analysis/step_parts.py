"""Parts of a distributed training step: compute, launch, input, wait for the slowest rank, and exchange.

The exchange is measured in three ways: as the difference of steps with and without it, in isolation, and as the
collectives of a trace. The difference of the first two is the exchange time that is overlapped with compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from accelbench.profiling.analysis.bottleneck import decide
from accelbench.profiling.records.bottleneck import CAUSES, Bottleneck, Cause
from accelbench.profiling.records.step import IsolatedTimes, StepParts


def split_step(
    step_s: float, isolated: Sequence[IsolatedTimes], profiler_s: float | None = None, launching: float | None = None
) -> StepParts:
    """Return the parts of a step from the isolated times of all ranks, rank 0 first.

    `profiler_s` and `launching` are from the trace: the seconds of its collectives, and the share of launching in the
    rest of the step without input. In a trace, a host that waits for an exchange seems to launch. Therefore the
    exchange and waiting time that is missing in the trace is subtracted from the launch time.
    """
    own = median(isolated[0].apart_s)
    slowest = median(map(max, zip(*(rank.apart_s for rank in isolated), strict=False)))
    exposed, alone = max(0.0, step_s - slowest), median(isolated[0].alone_s)
    sources = {"with and without": exposed, "alone": alone}
    if profiler_s is not None:
        sources["profiler"] = profiler_s
    waited = min(isolated[0].input_s, own)
    launch = None
    if launching is not None:
        traced = profiler_s or 0.0
        missing = max(0.0, step_s - own - traced)
        launch = min(own - waited, max(0.0, launching * (step_s - traced - waited) - missing))
    return StepParts(
        step_s=step_s,
        compute_s=own - waited - (launch or 0.0),
        launch_s=launch,
        input_s=waited,
        wait_s=slowest - own,
        exposed_s=exposed,
        hidden_s=max(0.0, alone - exposed),
        exchange_s=sources,
        bytes=isolated[0].bytes,
        unexplained_s=step_s - slowest - alone,
    )


def with_exchange(verdict: Bottleneck, parts: StepParts) -> Bottleneck:
    """Return the bottleneck of one rank with the exchange and the wait for other ranks counted as communication.

    In a trace, a host that waits for an exchange seems to launch no work. Therefore exchange time that is missing in
    the trace is subtracted from dispatch first.
    """
    communication = min(1.0, (parts.wait_s + parts.exposed_s) / parts.step_s)
    of_input = min(1.0 - communication, parts.input_s / parts.step_s)
    own = {cause: share for cause, share in verdict.shares.items() if cause not in ("communication", "input")}
    rest = 1.0 - communication - of_input
    excess = max(0.0, sum(own.values()) - rest)
    own["dispatch"] = max(0.0, own.get("dispatch", 0.0) - excess)
    whole = sum(own.values())
    shares: dict[Cause, float] = (
        {cause: rest * share / whole for cause, share in own.items()} if whole else {"device": rest}
    )
    shares |= {"communication": communication, "input": of_input}
    source = "steps with and without exchange"
    text = f"{source}: communication {communication:.0%}" + (f"; {verdict.shares_text}" if verdict.shares_text else "")
    evidence = verdict.model_copy(update={"shares_text": text})
    return decide({cause: np.array([shares.get(cause, 0.0)]) for cause in CAUSES}, source, evidence)
