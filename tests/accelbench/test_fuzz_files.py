"""Fuzz tests of untrusted bundles, settings, references, run folders and sides of `pair`.

An uncaught exception or five seconds of CPU time fail a test; nothing is measured.
"""

from __future__ import annotations

import contextlib
import io
import json
import lzma
import re
import shutil
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from accelbench.errors import RunBroken, UserError, collect_damage
from accelbench.execution import runner
from accelbench.execution.ranks import RankLost
from accelbench.execution.store import RunStore, Settings
from accelbench.pack.read import open_packed
from accelbench.pair import side_process
from accelbench.pair.pairing import PairingGoal, measure_pair
from accelbench.pair.server import SidePlan
from accelbench.pair.side import PairSide
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.work import Work
from accelbench.references.comparison import compare_with_references
from tests.accelbench.test_fuzz import CONTRACT, TOML, put, spots, status_of
from tests.fixtures.compare_runs import measured
from tests.fixtures.report_records import record
from tests.fixtures.report_runs import environment, make_run

FEW, MANY = 25, 500
SOME = settings(
    max_examples=FEW if settings.default and settings.default.derandomize else MANY,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
MOST_CPU_S = 5.0
SECRETS = "not to be changed"

pytestmark = pytest.mark.needs("linux")


@contextlib.contextmanager
def soon() -> Iterator[None]:
    """Fail a block that exceeds its limit of CPU time."""

    def late(signum: int, frame: object) -> None:
        raise AssertionError(f"more than {MOST_CPU_S:g} s of CPU time")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Working directory with a run, next to a file that must not change."""
    base = tmp_path_factory.mktemp("foreign")
    (base / "victim").write_text(SECRETS)
    (base / "here").mkdir()
    stream = record(
        "stream", params={"impl": "numba", "op": "copy", "dtype": "float64"}, figure="bytes", work=Work(bytes=10**8)
    )
    make_run(base / "here" / "whole", [stream, record("nqueens", params={"impl": "numba", "n": 8})], device="cpu")

    def not_started(*job: object) -> None:
        raise RankLost("nothing is measured here", is_new=False)

    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(base / "here"):
        patch.setenv("XDG_CACHE_HOME", str(base / "cache"))
        patch.setattr(runner, "WorkerProcess", not_started)
        patch.setattr("accelbench.session.report", lambda *asked: True)
        patch.setattr("accelbench.session.new_run", lambda *asked: asked)
        patch.setattr("accelbench.environment.differences.same_machine", lambda *machines: True)
        patch.setattr(side_process, "PLAN_SECONDS", 2.0)
        yield base / "here"


@contextlib.contextmanager
def contained(folder: Path) -> Iterator[None]:
    """Fail a block that changes files outside the working directory and the cache, or exceeds its CPU time."""
    with soon():
        yield
    base = folder.parent
    assert (base / "victim").read_text() == SECRETS
    assert {path.name for path in base.iterdir()} <= {"victim", "here", "cache"}
    assert {path.name for path in base.glob("cache/*")} <= {"accelbench"}


NAMES = st.sampled_from(
    [
        *("run/run.json", "run/records.jsonl", "run", ".", "", "/", "..", "../victim", "run/../../victim", "/etc/x"),
        *("run/" * 40 + "x", "x" * 300, "run/\udcff", "run/a\nb", "a\\..\\b", "run/run.json/x", ".lock", "run/\u202e"),
    ]
)
KINDS = st.sampled_from(
    [
        *(tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE),
        *(tarfile.GNUTYPE_SPARSE, tarfile.GNUTYPE_LONGNAME, tarfile.CONTTYPE, tarfile.XHDTYPE, tarfile.XGLTYPE, b"?"),
    ]
)
HEADERS = st.dictionaries(
    st.sampled_from(
        ["path", "size", "linkpath", "mtime", "GNU.sparse.major", "GNU.sparse.size", "GNU.sparse.map", "x"]
    ),
    st.sampled_from(["../victim", "-1", "9" * 30, "nan", "0,1,2", "", "x" * 5000, "1\n2"]),
    max_size=2,
)


@st.composite
def packs(draw: st.DrawFn) -> bytes:
    """Return a bundle with random members, with or without the files of a run, and possibly changed bytes."""
    archived = io.BytesIO()
    whole = {
        f"run/{path.name}": path.read_bytes() for path in Path("whole").iterdir() if path.suffix.startswith(".json")
    }
    with tarfile.open(fileobj=archived, mode="w", format=draw(st.sampled_from([0, 1, 2])), errors="replace") as archive:
        for name in draw(st.permutations(sorted(whole))):
            member = tarfile.TarInfo(name)
            member.size = len(whole[name])
            archive.addfile(member, io.BytesIO(whole[name]))
        for _ in range(draw(st.integers(0, 3))):
            odd = tarfile.TarInfo(draw(NAMES))
            odd.type, odd.pax_headers, odd.linkname = draw(KINDS), draw(HEADERS), draw(NAMES)
            content = draw(st.binary(max_size=600))
            odd.size = len(content)
            with contextlib.suppress(ValueError):  # a name that this format cannot hold
                archive.addfile(odd, io.BytesIO(content))
    data = changed(draw, archived.getvalue()) if draw(st.booleans()) else archived.getvalue()
    packed = lzma.compress(data, draw(st.sampled_from([lzma.FORMAT_XZ, lzma.FORMAT_ALONE])), preset=0)
    return changed(draw, packed) if draw(st.integers(0, 3)) == 0 else packed


def changed(draw: st.DrawFn, data: bytes) -> bytes:
    """Return the bytes with some of them replaced, removed, duplicated or inserted."""
    begin = draw(st.integers(0, len(data)))
    end = draw(st.integers(begin, min(len(data), begin + 600)))
    new = st.sampled_from([b"", b"\0" * 512, b"\xff" * 12, b"77777777777\0", b"-1", data[begin:end] * 2]) | st.binary()
    return data[:begin] + draw(new) + data[end:]


@settings(SOME)
@given(packs())
def test_any_pack_is_a_run_or_an_error(folder: Path, pack: bytes) -> None:
    (folder / "odd.tar.xz").write_bytes(pack)
    with contained(folder), contextlib.suppress(UserError), collect_damage():
        open_packed(folder / "odd.tar.xz").contents()
    shutil.rmtree(folder.parent / "cache", ignore_errors=True)


KEYS = (
    "run",
    "report",
    "pair",
    "runs",
    "tool",
    "tool.accelbench",
    "tool.accelbench.run",
    "nobody",
    '"\\u001b[31m"',
    "''",
)
OPTIONS = (
    "device",
    "param",
    "out",
    "yes",
    "delete",
    "trusted-network",
    "quiet",
    "rounds",
    "seed",
    "a",
    '"\\u202e"',
    "suite",
)


@st.composite
def options_files(draw: st.DrawFn) -> bytes:
    """Tables of options with random values, possibly invalid TOML."""
    lines = []
    for _ in range(draw(st.integers(0, 3))):
        lines.append(
            f"[{draw(st.sampled_from(KEYS))}]" if draw(st.integers(0, 4)) else draw(st.sampled_from(KEYS)) + " = 1"
        )
        lines += [f"{draw(st.sampled_from(OPTIONS))} = {draw(TOML)}" for _ in range(draw(st.integers(0, 2)))]
    data = "\n".join(lines).encode()
    return changed(draw, data) if draw(st.integers(0, 3)) == 0 else data


@settings(SOME)
@given(
    name=st.sampled_from(["accelbench.toml", "pyproject.toml"]),
    content=options_files(),
    words=st.sampled_from([["run", "stream", "--dry-run", "--no-ceilings"], ["runs", "none"], ["export", "whole"]]),
)
def test_any_settings_file_has_a_documented_exit_status(
    folder: Path, name: str, content: bytes, words: list[str]
) -> None:
    (folder / name).write_bytes(content)
    try:
        with contained(folder):
            status, errors = status_of(*words)
    finally:
        (folder / name).unlink()
    assert status in CONTRACT
    assert "\x1b" not in errors
    assert all(line.startswith("accelbench: ") for line in errors.splitlines())


CPU = "AMD EPYC 9454 48-Core Processor"
REFERENCE = {
    "kind": "cpu",
    "benchmark": "stream",
    "axes": {"op": ["copy"]},
    "value": 1e11,
    "unit": "B/s",
    "how": "x",
    "date": "2026-01-01",
    "source": "x",
}


@st.composite
def references(draw: st.DrawFn) -> bytes:
    """Table of references with random values, possibly invalid TOML."""
    lines = []
    for _ in range(draw(st.integers(0, 2))):
        odd = draw(st.dictionaries(st.sampled_from([*REFERENCE, "at_least", "cpus", "x"]), TOML, max_size=2))
        device = draw(st.sampled_from(["(a+)+$", CPU, "\\\\Q", "[", "\\u001b"]))
        lines.append(table(**{"device": f'"{device}"'} | odd))
    data = "\n".join(lines).encode()
    return changed(draw, data) if draw(st.integers(0, 3)) == 0 else data


def table(**values: str) -> str:
    given_values = (
        {name: json.dumps(value) for name, value in REFERENCE.items()} | {"axes": '{ op = ["copy"] }'} | values
    )
    return "\n".join(["[[reference]]", *(f"{name} = {value}" for name, value in given_values.items())])


def test_a_table_of_references_is_used(folder: Path) -> None:
    (folder / "references.toml").write_text(table(device=f'"{CPU}"'))
    store = RunStore.open(folder / "whole")
    (compared,) = compare_with_references(store.info(), store.records(), folder)
    (folder / "references.toml").unlink()
    assert compared.references[0].device == re.escape(CPU)


@settings(SOME)
@given(references())
def test_any_table_of_references_is_used_or_reported(folder: Path, content: bytes) -> None:
    (folder / "references.toml").write_bytes(content)
    store = RunStore.open(folder / "whole")
    info = store.info()
    with contained(folder), collect_damage():
        for compared in compare_with_references(info, store.records(), folder):
            assert compared.sentence
    (folder / "references.toml").unlink()


VALUES = st.sampled_from(
    [
        *(None, True, 0, -1, 3, 1.5, 10**17, 10**30, "", "x", "../x", "x" * 300, "\x1b[31m", "cpu", "torch"),
        [],
        {},
        {"a": "b"},
    ]
)


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """Content of `run.json` with random values in its plan and settings."""
    data: dict[str, Any] = json.loads(Path("whole/run.json").read_text())
    for _ in range(draw(st.integers(1, 2))):
        part = draw(
            st.sampled_from(["plan", "plan", "plan", "settings", "label", "suite", "device", "status", "command"])
        )
        data[part] = put(data[part], draw(st.sampled_from(list(spots(data[part])))), draw(VALUES))
    return data


@settings(SOME)
@given(data=plans(), failed=st.booleans())
def test_any_plan_is_resumed_or_refused(folder: Path, data: dict[str, Any], failed: bool) -> None:
    shutil.rmtree(folder / "odd", ignore_errors=True)
    shutil.copytree(folder / "whole", folder / "odd")
    (folder / "odd" / "run.json").write_text(json.dumps(data))
    (folder / "odd" / "records.jsonl").write_text("")
    with contained(folder):
        status, errors = status_of("resume", "odd", *(["--failed"] if failed else []))
    assert status in CONTRACT
    assert all(line.startswith("accelbench: ") for line in errors.splitlines())


GOAL = PairingGoal(["matmul"], "cpu", None, [], Settings(), within=0.02, time_limit_s=5.0)
RECORD = measured([1e-3], verification=Verification(passed=True, method="NumPy"))
PLAN = {"plan": SidePlan(device="cpu", points=[RECORD.point], environment=environment()).model_dump(mode="json")}
ANSWER = {"record": RECORD.model_dump(mode="json")}


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Answer of a side, as lines."""
    lines = []
    for line in (PLAN, ANSWER):
        odd = (
            put(line, draw(st.sampled_from(list(spots(line)))), draw(VALUES)) if draw(st.integers(0, 2)) == 0 else line
        )
        data = json.dumps(odd).encode() + b"\n"
        lines.append(changed(draw, data) if draw(st.integers(0, 2)) == 0 else data)
    return b"".join(draw(st.permutations(lines)) if draw(st.integers(0, 4)) == 0 else lines)


@settings(SOME)
@given(answers())
@example(json.dumps(PLAN).encode() + b"\n" + json.dumps(ANSWER).encode() + b"\n")
def test_any_answer_of_a_side_is_a_record_or_an_error(folder: Path, answer: bytes) -> None:
    (folder / "answers").write_bytes(answer)
    a, b = PairSide("A", "."), PairSide("B", ".")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PairSide, "command", lambda side, device: ["cat", "answers"])
        with contained(folder), contextlib.suppress(UserError, RunBroken):
            measure_pair(Path("pair"), a, b, GOAL, lambda *begun: None, lambda course: None)
    found = RunStore(folder / "pair" / "A")
    if found.info_path.exists():
        assert found.info().plan
        assert all(each.verification for each in found.records() if each.status == "measured")
    shutil.rmtree(folder / "pair", ignore_errors=True)
    (folder / "answers").unlink()
