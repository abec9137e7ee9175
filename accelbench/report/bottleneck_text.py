"""Bottleneck of a profile as text, without an import of drawing libraries."""

from __future__ import annotations

from operator import itemgetter

from accelbench.output.format import percent, read
from accelbench.profiling.analysis.bottleneck import HELP, NEAR
from accelbench.profiling.analysis.experiments import FIELD
from accelbench.profiling.records.bottleneck import CAUSES, Bottleneck, Cause, StepsWithout
from accelbench.profiling.records.record import Profile

UNKNOWN_BOUND = "bottleneck unknown"
CONFIRMED = "confirmed by experiment"
EXPERIMENTS: dict[Cause, tuple[str, str]] = {
    "input": ("With the input taken away", "better input"),
    "communication": ("Without the exchange of gradients", "a faster or less frequent exchange"),
    "dispatch": ("With many steps in one launch", "less work on the host"),
}
"""Condition of the experiment on each cause, and what would have its effect."""
SHARES, NEGLIGIBLE = 3, 0.005
"""Maximum number of shares printed with a bottleneck, and the minimum share that is printed."""


def bottleneck_text(profile: Profile) -> str:
    """Return the bottleneck as text: `device-bound`, `device-bound and input-bound` or `bottleneck unknown`."""
    found = profile.bottleneck
    return " and ".join([found.bound, *found.beside]) if found.bound else UNKNOWN_BOUND


def bottleneck_in_short(profile: Profile) -> str:
    """Return the bottleneck with the share of the step that its cause takes: `device-bound 90 %`."""
    found = profile.bottleneck
    share = next((share for cause, share in found.shares.items() if found.bound == f"{cause}-bound"), None)
    return bottleneck_text(profile) if share is None or found.beside else f"{found.bound} {percent(share)}"


def bottleneck_line(profile: Profile) -> str:
    """Return the bottleneck with its shares, `device-bound: device 99 %, dispatch 1 %`, or the reason if unknown."""
    found = profile.bottleneck
    if found.bound is None:
        return f"{UNKNOWN_BOUND}: {found.reason or 'no reason recorded'}"
    if found.bound == "cpu-quota-bound":
        # The CPU quota overrides the shares, and is not one of them.
        return f"{found.bound}: {found.quota_text or ''}"
    largest = sorted(found.shares.items(), key=itemgetter(1), reverse=True)[:SHARES]
    shares = ", ".join(f"{cause} {100 * share:.0f} %" for cause, share in largest if share >= NEGLIGIBLE)
    line = f"{bottleneck_text(profile)}: {shares}" if shares else bottleneck_text(profile)
    if found.confirmed:
        line = f"{line}; {CONFIRMED}"
    # Without the times of both steps, which follow in parentheses.
    return f"{line}; doubtful: {found.apart_text.partition(' (')[0]}" if found.apart_text else line


def experiments_of(found: Bottleneck) -> dict[Cause, StepsWithout]:
    """Return the steps of each experiment by the cause that it took away."""
    steps = {cause: getattr(found, FIELD[cause]) for cause in CAUSES if cause in FIELD}
    return {cause: its for cause, its in steps.items() if its}


def experiment_text(cause: Cause, steps: StepsWithout) -> str:
    """Return the step time without this cause, and how much its improvement can bring at most."""
    time = read(steps.mean, "s", steps.ci_low, steps.ci_high)
    most = f"{steps.speedup:.2f}× ({steps.speedup_low:.2f}–{steps.speedup_high:.2f})"
    same = "" if steps.same_random_numbers else "; the training drew other random numbers"
    condition, cure = EXPERIMENTS[cause]
    other = f" instead of {read(steps.mean_with, 's')}" if steps.mean_with else ""
    return f"{condition} ({steps.steps} steps), a step takes {time}{other}: at most {most} by {cure}{same}"


def advice(profile: Profile) -> str | None:
    """Return how to speed up the training, exclusive CPUs first if contention takes a tenth of the step or more."""
    found = profile.bottleneck
    contended = found.shares.get("contention", 0.0) >= NEAR and "cpu-contended" not in (found.bound, *found.beside)
    return f"{HELP['cpu-contended']}; then {found.help}" if contended and found.help else found.help


def shares_text(profile: Profile) -> str:
    """Return all shares of the mean step as a tooltip."""
    shares = ", ".join(f"{cause} {percent(share)}" for cause, share in profile.bottleneck.shares.items())
    return shares or bottleneck_line(profile)
