"""The overhead of containers, from made-up pairs: verdicts, and reasons for none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from accelbench.errors import DataDamaged
from accelbench.execution.store import RunStore
from accelbench.pair.paired import speed_ratio
from accelbench.pair.result import RESULT, PairResult, PointResult, SideResult
from accelbench.profiling.records.environment import Environment, System
from accelbench.profiling.records.record import Record
from accelbench.report.stored_run import Run
from accelbench.reproduce.claim_verdict import Finding
from tests.fixtures.made_up_runs import judged, machine, trained
from tests.fixtures.report_records import STARTED
from tests.fixtures.report_runs import make_run

IMAGES = {"docker": "docker:accelbench:cpu", "apptainer": "accelbench-cpu.sif"}
OUTSIDE = System(os="Debian", kernel="6.1")
SAME = [0.999, 1.001] * 6


def where(container: str | None = None, **changes: Any) -> Environment:
    return machine(system=OUTSIDE.model_copy(update={"container": container}), **changes)


def train(**params: Any) -> Record:
    return trained("resnet50", "cpu", 1.0, image=64, batch=8, **params)


def pair(
    folder: Path,
    engine: str,
    speeds: list[float],
    *,
    image_first: bool = False,
    outside: Environment | None = None,
    settings: list[str] | None = None,
    point: Record | None = None,
    **changes: Any,
) -> list[Run]:
    """Write a pair with these speeds of the image relative to the other side, and return its runs."""
    record = point or train()
    ratios = [1 / speed for speed in speeds] if image_first else speeds
    machines = [outside or where(), where(engine)]
    words = [".", IMAGES[engine]]
    result = PointResult(
        point=str(record.point), a=record.point, b=record.point, ratios=ratios, figure_a=64.0, figure_b=64.0,
        unit="images/s", disturbed=0, speed=speed_ratio(ratios), verdict="same", reason=None,
    )  # fmt: skip
    order = (1, 0) if image_first else (0, 1)
    written = PairResult(
        created=STARTED, command=["accelbench", "pair"], status="finished", within=0.015, wall_s=60.0,
        a=SideResult(word=words[order[0]], settings=[]), b=SideResult(word=words[order[1]], settings=settings or []),
        points=[result.model_copy(update=changes)], only_a=[], only_b=[],
    )  # fmt: skip
    known = {"device": "cpu", "suite": None}
    for letter, side in zip("AB", order, strict=True):
        make_run(folder / letter, [record], run_id=f"{folder.name}-{letter}", environment=machines[side], **known)
    (folder / RESULT).write_text(written.model_dump_json(), encoding="utf-8")
    return [Run.of(RunStore(folder / letter)) for letter in "AB"]


def both(folder: Path, docker: list[float], sif: list[float], **changes: Any) -> Finding:
    """Return the verdict by a pair with Docker and one with Apptainer."""
    runs = pair(folder / "docker", "docker", docker, **changes), pair(folder / "sif", "apptainer", sif, **changes)
    return judged("W5", *runs[0], *runs[1])


@pytest.mark.parametrize("image_first", [False, True])
def test_pairs_with_both_engines_confirm_and_refute(tmp_path: Path, image_first: bool) -> None:
    same = both(tmp_path / "same", SAME, SAME, image_first=image_first)
    assert (same.verdict, len(same.evidence)) == ("confirmed", 2)
    for ratio in same.relative:
        assert ratio.low < 1 / 1.03 < ratio.high < 1
    slow = both(tmp_path / "slow", [0.8, 0.81] * 6, [0.7, 0.71] * 6, image_first=image_first)
    assert slow.verdict == "refuted"
    assert slow.ours.startswith("× 1.42")
    fast = both(tmp_path / "fast", [1.2, 1.21] * 6, SAME, image_first=image_first)
    assert fast.verdict == "confirmed"


def test_engines_that_differ_are_inconclusive(tmp_path: Path) -> None:
    assert both(tmp_path, SAME, [0.7, 0.71] * 6).reason == "the points disagree"


def test_without_a_pair_of_an_engine_the_reason_is_its_command(tmp_path: Path) -> None:
    none = judged("W5")
    assert (none.verdict, none.reason, len(none.evidence)) == ("inconclusive", "no such point", 2)
    assert "docker:accelbench:DEVICE" in none.evidence[1]
    found = judged("W5", *pair(tmp_path / "docker", "docker", SAME))
    assert (found.reason, len(found.relative)) == ("no such point", 1)
    assert "accelbench-DEVICE.sif" in found.why


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"outside": where("podman")}, "other parameters"),
        ({"outside": where(limits=machine().limits.model_copy(update={"cpu_quota": 1.0}))}, "other parameters"),
        ({"settings": ["env:OMP_NUM_THREADS=1"]}, "other parameters"),
        ({"verdict": "not measured", "reason": "B failed: out of memory"}, "not measured"),
        ({"verdict": "inconclusive", "reason": "time limit reached"}, "interval too wide"),
        ({"point": trained("cnn-mnist", "cpu", 1.0, batch=128)}, "no such point"),
    ],
)
def test_other_causes_and_unmeasured_points_decide_nothing(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    found = both(tmp_path, SAME, SAME, **changes)
    assert (found.verdict, found.reason) == ("inconclusive", reason)


def test_an_interval_that_includes_the_bound_is_too_wide(tmp_path: Path) -> None:
    assert both(tmp_path, [0.9, 1.05] * 6, SAME).reason == "interval too wide"


def test_only_versions_of_libraries_on_both_sides_are_other_causes(tmp_path: Path) -> None:
    software = machine().software
    more = software.model_copy(update={"python": "3.12.1", "libraries": software.libraries | {"torch": "2.9.0"}})
    assert both(tmp_path / "more", SAME, SAME, outside=where(software=more)).verdict == "confirmed"
    newer = software.model_copy(update={"libraries": software.libraries | {"numpy": "2.3.0"}})
    found = both(tmp_path / "newer", SAME, SAME, outside=where(software=newer))
    assert found.reason == "other parameters"
    assert "numpy" in found.why


def test_runs_that_are_no_pair_with_an_image_are_not_compared(tmp_path: Path) -> None:
    runs = pair(tmp_path / "pair", "docker", SAME)
    assert judged("W5", runs[1]).relative == ()
    (tmp_path / "pair" / RESULT).write_text("{", encoding="utf-8")
    with pytest.raises(DataDamaged, match=RESULT):
        judged("W5", *runs)
    (tmp_path / "pair" / RESULT).unlink()
    assert judged("W5", *runs).relative == ()
