"""Predicate about containers: the time of a program in an image over its time outside, from stored pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from accelbench.environment.differences import differences
from accelbench.output.format import digits
from accelbench.pair.container import OCI, is_image
from accelbench.pair.result import RESULT, PairResult, PointResult, read_pair
from accelbench.profiling.timing.statistics import Estimate
from accelbench.report.stored_run import Run
from accelbench.reproduce.claim_verdict import ClaimPart, Finding, Inconclusive, decided
from accelbench.reproduce.observations import Observations, PointSelection
from accelbench.reproduce.pairs import above
from accelbench.reproduce.rules import Rule

ContainerEngine = Literal["apptainer", "docker", "podman"]
IMAGES: dict[str, str] = {
    "apptainer": "containers/build/accelbench-DEVICE.sif",
    "docker": "docker:accelbench:DEVICE",
    "podman": "podman:accelbench:DEVICE",
}
"""Image of each engine on the command line of `accelbench pair`."""
NO_CAUSE = ("software.python", "software.revision")
"""Differences that leave the claim decidable: an image has the Python of its distribution."""


@dataclass(frozen=True)
class ContainerPair:
    """Stored pair of a program in an image and the same program outside."""

    result: PairResult
    outside: Run
    inside: Run
    image: str
    """Image as on the command line."""
    reverse: bool
    """Whether the image is side A."""

    @property
    def engine(self) -> str:
        prefix = self.image.partition(":")[0]
        return prefix if prefix in OCI else "apptainer"

    def ratio(self, speed: Estimate) -> Estimate:
        """Return the time in the image over the time outside, from B's speed relative to A's."""
        if self.reverse:
            return speed
        return Estimate(1 / speed.high, 1 / speed.low, speed.confidence, 1 / speed.value)

    @property
    def other_causes(self) -> list[str]:
        """Return the differences between the sides, other than the container, that may change the speed."""
        found = differences(self.outside.info.environment, self.inside.info.environment, {self.inside.info.device})
        causes = [each for each in found if each.matters and each.fact not in NO_CAUSE]
        # A library that one side lacks changes nothing that both sides execute.
        causes = [each for each in causes if "none" not in (each.a, each.b) or "libraries" not in each.fact]
        other = [f"{each.fact} is {each.a} outside and {each.b} in the image" for each in causes]
        if outer := self.outside.info.environment.system.container:
            other.insert(0, f"the side outside the image ran in a container, too ({outer})")
        if self.result.a.settings != self.result.b.settings:
            other.insert(0, "the sides have different settings")
        return other


class ContainerRule(Rule):
    """Claim that a program takes at most `bound` times as long in a container, by a pair with each engine."""

    name: Literal["container"]
    engines: tuple[ContainerEngine, ...] = ("apptainer", "docker")
    """Engines of which a pair is required."""
    bound: float = 1.03
    """Largest ratio of times without a relevant overhead."""

    def judge(self, selections: Sequence[PointSelection], observations: Observations) -> Finding:
        """Return the verdict from the pairs among the runs; without a pair of an engine, from none."""
        pairs = list(container_pairs(observations.runs))
        parts: list[ClaimPart] = []
        for engine in dict.fromkeys([*self.engines, *(pair.engine for pair in pairs)]):
            own = [part for pair in pairs if pair.engine == engine for part in self._parts(pair, selections)]
            parts += own or [_missing(engine, selections[0])]
        return decided(parts, f"the ratio of times inside and outside the container is at most {digits(self.bound)}")

    def _parts(self, pair: ContainerPair, selections: Sequence[PointSelection]) -> Iterator[ClaimPart]:
        for point in pair.result.points:
            if any(point.a.device in points.devices and points.select(point.a) for points in selections):
                yield self._part(pair, point)

    def _part(self, pair: ContainerPair, point: PointResult) -> ClaimPart:
        name = f"{point.point}, in {pair.engine} over outside"
        if causes := pair.other_causes:
            found = Inconclusive("other parameters", f"{name}: {'; '.join(causes)}")
        elif point.verdict == "not measured":
            found = Inconclusive("not measured", f"{name}: {point.reason}")
        elif point.verdict == "inconclusive" or point.speed is None:
            found = Inconclusive("interval too wide", f"{name}: {point.reason}")
        else:
            part = above(pair.ratio(point.speed), self.bound, name)
            if part.holds is None:
                return replace(part, why=part.why.replace("give more runs", "use a smaller --within"))
            return replace(part, holds=not part.holds)
        return found.part


def container_pairs(runs: Sequence[Run]) -> Iterator[ContainerPair]:
    """Yield each pair of which both sides are among the runs, and one side is an image.

    Raises `DataDamaged` if the file of such a pair cannot be read.
    """
    folders: dict[Path, dict[str, Run]] = {}
    for run in runs:
        if run.store and (run.store.path.parent / RESULT).exists():
            folders.setdefault(run.store.path.parent, {})[run.store.path.name] = run
    for folder, sides in folders.items():
        if not {"A", "B"} <= sides.keys():
            continue
        result = read_pair(folder / RESULT)
        in_a, in_b = is_image(result.a.word), is_image(result.b.word)
        if in_a != in_b:
            outside, inside = (sides["B"], sides["A"]) if in_a else (sides["A"], sides["B"])
            yield ContainerPair(result, outside, inside, (result.a if in_a else result.b).word, in_a)


def _missing(engine: str, points: PointSelection) -> ClaimPart:
    command = f"accelbench pair . {IMAGES[engine]} {points.benchmark} --device DEVICE"
    return Inconclusive("no such point", f"no pair with {engine}: run '{command}', and give its folder").part
