"""Records of the parts of a step of several replicas."""

from __future__ import annotations

from accelbench.profiling.records.stored import Stored


class IsolatedTimes(Stored):
    """Isolated times of one rank: its steps without exchange, and its exchanges without steps, in seconds."""

    apart_s: list[float]
    """The seconds of each step that was trained without exchange."""
    input_s: float
    """The mean seconds that these steps waited for their batch."""
    alone_s: list[float]
    """The seconds of each exchange without a step."""
    bytes: float
    """The bytes of the gradients that each replica exchanges in a step."""


class StepParts(Stored):
    """The parts of a step of several ranks, in seconds; those from `compute_s` to `exposed_s` add up to it."""

    step_s: float
    """The median seconds of rank 0's step, exchange included."""
    compute_s: float
    """The seconds that rank 0 computes in a step without exchange; launching is in them where it is not known."""
    launch_s: float | None = None
    """The seconds that rank 0's host starts work while nothing is computed; null where no trace tells them."""
    input_s: float
    """The seconds that rank 0 waits for its batch."""
    wait_s: float
    """The seconds that the slowest rank takes longer than rank 0, step by step, without any exchange."""
    exposed_s: float
    """The seconds of exchange while nothing is computed: the step less that of the slowest rank without exchange."""
    hidden_s: float
    """The seconds of exchange that pass behind computing."""
    exchange_s: dict[str, float]
    """The seconds of a step's exchange by each source: `with and without`, `alone`, `profiler`."""
    bytes: float
    """The bytes of the gradients that each replica exchanges in a step."""
    unexplained_s: float
    """The seconds of a step that remain if its exchange takes as long as alone; negative where exchange is hidden."""

    @property
    def own_s(self) -> float:
        """Return the seconds that rank 0 spends by itself: on computing, launching and input."""
        return self.compute_s + (self.launch_s or 0.0) + self.input_s
