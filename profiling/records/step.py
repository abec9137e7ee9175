"""What a step of several replicas is made of."""

from __future__ import annotations

from profiling.records.stored import Stored


class Seen(Stored):
    """What one rank saw of its step's parts, in seconds."""

    apart_s: list[float]
    """Of each step without exchange."""
    input_s: float
    """Of these steps, waiting for the batch: the mean."""
    alone_s: list[float]
    """Of each exchange without a step."""
    bytes: float
    """Of the gradients."""


class StepParts(Stored):
    """Where a step of several ranks goes, in seconds; `compute` to `exposed` add up to it."""

    step_s: float
    compute_s: float
    """Of rank 0, without exchange; launching is in it where that is not known."""
    launch_s: float | None = None
    """Of rank 0, the host starting work while nothing is computed; null where no trace tells it from computing."""
    input_s: float
    """Waiting for the batch."""
    wait_s: float
    """For the rank that is last, step by step: what the slowest takes longer than rank 0 without any exchange."""
    exposed_s: float
    """Exchanging while nothing is computed: what the step takes longer than that of the slowest without exchange."""
    hidden_s: float
    """Exchanging behind computing."""
    exchange_s: dict[str, float]
    """The exchange of a step by each source: `with and without`, `alone`, `profiler`."""
    bytes: float
    """Of the gradients that each replica gives."""
    unexplained_s: float
    """What is left of the step if its exchange takes as long as alone: negative where it is hidden."""

    @property
    def own_s(self) -> float:
        """What rank 0 does by itself: computing, launching and input."""
        return self.compute_s + (self.launch_s or 0.0) + self.input_s
