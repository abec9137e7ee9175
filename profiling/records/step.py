"""Records of the parts of a distributed training step."""

from __future__ import annotations

from accelbench.profiling.records.stored import Stored


class IsolatedTimes(Stored):
    """Isolated times of one rank, in seconds: steps without exchange, and exchanges without steps."""

    apart_s: list[float]
    """The time of each training step without exchange, in seconds."""
    input_s: float
    """The mean time that these steps waited for their batch, in seconds."""
    alone_s: list[float]
    """The time of each exchange without a step, in seconds."""
    bytes: float
    """The size of the gradients that each replica exchanges in a step, in bytes."""


class StepParts(Stored):
    """Parts of a step of several ranks, in seconds; the fields from `compute_s` to `exposed_s` add up to `step_s`."""

    step_s: float
    """The median step time of rank 0, exchange included."""
    compute_s: float
    """The compute time of rank 0 in a step without exchange; includes the launch time if that is unknown."""
    launch_s: float | None = None
    """The time in which rank 0's host launches work while the device is idle; null without a trace."""
    input_s: float
    """The time that rank 0 waits for its batch."""
    wait_s: float
    """The wait for the slowest rank: the difference of both ranks' step times without exchange."""
    exposed_s: float
    """The exchange time not overlapped with compute: the step less the slowest rank's step without exchange."""
    hidden_s: float
    """The exchange time overlapped with compute."""
    exchange_s: dict[str, float]
    """The exchange time of a step by each source: `with and without`, `alone`, `profiler`."""
    bytes: float
    """The size of the gradients that each replica exchanges in a step, in bytes."""
    unexplained_s: float
    """The rest of the step if its exchange takes as long as an isolated one; negative if exchange is overlapped."""

    @property
    def own_s(self) -> float:
        """Return the time of rank 0 for compute, launch and input, in seconds."""
        return self.compute_s + (self.launch_s or 0.0) + self.input_s
