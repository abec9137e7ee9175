"""Tests of the observation of a running script, with a session in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from time import sleep

import pytest

from accelbench.profiling.attach.session import MARKS, OPTIMIZER, Session
from accelbench.profiling.host.counters import HostCounterSampler
from accelbench.profiling.measure.script.launch import exchange_folder
from accelbench.profiling.measure.script.observe import FEWEST_STEPS, ScriptObserver

pytestmark = [pytest.mark.needs("linux")]


@contextmanager
def observed(train: Callable[[Session], None], run: Path, experiments: bool) -> Iterator[ScriptObserver]:
    """Yield the observer of a training in a thread of this process; wait for its end afterwards."""
    with exchange_folder() as folder:
        session = Session(str(folder))
        session.emit("hello", os.getpid(), os.uname().nodename, os.getcwd(), "", "")
        script = Thread(target=train, args=(session,))
        script.start()
        yield ScriptObserver(script.is_alive, folder, run, 0.3, experiments)
        script.join()


@pytest.mark.parametrize("optimizer_steps", [2, 30, 90, 130])
def test_timed_steps_are_of_the_better_source(
    optimizer_steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The better source appears before the timed steps, while the first one is waited for, or among them."""
    result = HostCounterSampler.result
    throttled = {"throttled_s": 0.25}
    monkeypatch.setattr(HostCounterSampler, "result", lambda self: result(self).model_copy(update=throttled))

    def train(session: Session) -> None:
        for step in range(optimizer_steps + 100):
            sleep(0.005 if step < optimizer_steps else 0.02)
            session.step(OPTIMIZER if step < optimizer_steps else MARKS)

    with observed(train, tmp_path, experiments=False) as observer:
        observer.observe_steps(10)
        ended = not observer.running()
    assert not ended
    assert len(observer.untouched) >= FEWEST_STEPS
    assert all(step.seconds >= 0.02 for step in observer.untouched)
    assert observer.untouched[-1].kind == "drained"
    assert observer.cpu
    assert observer.cpu.throttled_s == 0.25


def test_no_experiment_on_the_input_if_all_batches_were_fetched_before(tmp_path: Path) -> None:
    def train(session: Session) -> None:
        iterator = iter(range(3))
        session.step(MARKS)
        batches = [session.next_batch(next, iterator) for _ in range(3)]
        for _ in range(400):
            sleep(0.005)
            session.step(MARKS)
            assert batches

    with observed(train, tmp_path, experiments=True) as observer:
        observer.observe_steps(10)
        observer._take_input_away()
        commands = (observer._exchange / "commands").read_text(encoding="ascii")
    assert observer.events.loader
    assert len(observer.untouched) >= FEWEST_STEPS
    assert "prefetch" not in commands
    assert len(observer.missing) == 1


@pytest.mark.parametrize("first_is_local", [True, False])
def test_the_ranks_of_a_launcher_are_awaited(tmp_path: Path, first_is_local: bool) -> None:
    here = os.uname().nodename
    with exchange_folder() as folder:
        observer = ScriptObserver(lambda: True, folder, tmp_path, 1.0, experiments=False, ranked=True)
        folders = [folder / f"{rank}-{os.getpid()}" for rank in (1, 0)]
        for path in folders:
            path.mkdir()
        (folders[0] / "commands").touch()
        observer._read()
        (folders[0] / "events").touch()
        observer._read()
        (folders[0] / "events").write_text(f"'hello'\t7\t{here!r}\t'/'\t''\t''\n'world'\t2\n", encoding="ascii")
        observer._read()
        assert observer.events.pid is None
        node = here if first_is_local else "elsewhere"
        (folders[1] / "events").write_text(f"'hello'\t8\t{node!r}\t'/'\t''\t''\n'world'\t2\n", encoding="ascii")
        observer._read()
        assert (observer.rank, observer.events.pid) == ((0, 8) if first_is_local else (1, 7))
        assert {rank: events.pid for rank, events in observer.others.items()} == ({1: 7} if first_is_local else {0: 8})
