"""Tests of the observation in the script's process."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from types import ModuleType

import pytest

from accelbench.profiling.attach.imports import ImportWatch
from accelbench.profiling.attach.session import FIT, FLUSH_NS, MARKS, OPTIMIZER, OTHERS, Session
from accelbench.profiling.measure.script.events import ScriptEvents
from accelbench.profiling.measure.script.launch import exchange_folder


@pytest.fixture
def exchange() -> Iterator[Path]:
    with exchange_folder() as folder:
        yield folder


def read(session: Session, folder: Path) -> ScriptEvents:
    session.flush()
    events = ScriptEvents(folder)
    events.read()
    return events


def test_a_step_has_its_time_wait_and_examples(exchange: Path) -> None:
    session = Session(str(exchange))
    batches = iter([bytearray(8)] * 3)

    def slow(iterator: Iterator[bytearray]) -> memoryview:
        time.sleep(0.01)
        return memoryview(next(iterator)).cast("B", (4, 2))

    for _ in range(3):
        session.next_batch(slow, batches)
        session.step(MARKS)
    events = read(session, exchange)
    assert events.source == "marks"
    assert [step.examples for step in events.steps] == [4, 4]
    assert all(step.wait_s >= 0.01 and step.seconds >= step.wait_s for step in events.steps)
    assert not any(step.starts_epoch for step in events.steps)


def test_a_new_iterator_starts_an_epoch(exchange: Path) -> None:
    session = Session(str(exchange))
    epochs = [iter([1, 2]), iter([1, 2])]
    for batches in epochs:
        for _ in range(2):
            session.next_batch(next, batches)
            session.step(OPTIMIZER)
    assert [step.starts_epoch for step in read(session, exchange).steps] == [False, True, False]


def test_batches_of_one_iterator_may_differ_in_structure(exchange: Path) -> None:
    session = Session(str(exchange))
    sizes = 1, 4, 4, 8, 2, 0, 3
    arrays = [memoryview(bytearray(size)) for size in sizes]
    batches = iter([*arrays[:2], (arrays[2],), {"x": [arrays[3]]}, {"x": [arrays[4]]}, "text", {"y": arrays[6]}])
    for _ in sizes:
        session.next_batch(next, batches)
        session.step(MARKS)
    events = read(session, exchange)
    assert [step.examples for step in events.steps] == [*sizes[1:]]
    assert events.error is None


def test_a_batch_with_a_strange_shape_has_no_examples(exchange: Path) -> None:
    session = Session(str(exchange))
    shapes = (), (None, 3), "text", len, 5
    batches = iter([ModuleType("batch") for _ in shapes for _ in range(2)])
    for shape in shapes:
        for batch in (next(batches), next(batches)):  # the second one by the fast path
            batch.shape = shape  # type: ignore[attr-defined]
            session.next_batch(lambda _, batch=batch: batch, batches)  # type: ignore[misc]
            session.step(MARKS)
    events = read(session, exchange)
    assert [step.examples for step in events.steps] == [0] * 9
    assert events.error is None


def test_an_iterator_within_another_adds_neither_wait_nor_examples(exchange: Path) -> None:
    session = Session(str(exchange))
    batches, outer = iter([memoryview(bytearray(8))] * 6), iter(())

    def produce(_: object) -> memoryview:
        batch: memoryview = session.next_batch(next, batches)
        time.sleep(0.01)
        return batch

    for _ in range(6):
        session.next_batch(produce, outer)
        session.step(MARKS)
    events = read(session, exchange)
    assert [step.examples for step in events.steps] == [8] * 5
    assert all(0.01 <= step.wait_s <= step.seconds for step in events.steps)


def test_the_wait_for_the_end_of_an_epoch_is_part_of_the_next_step(exchange: Path) -> None:
    session = Session(str(exchange))

    def end(iterator: Iterator[int]) -> int:
        time.sleep(0.01)
        return next(iterator)

    for _ in range(3):
        batches = iter([1, 2])
        for _ in range(2):
            session.next_batch(next, batches)
            session.step(MARKS)
        with pytest.raises(StopIteration):
            session.next_batch(end, batches)
    steps = read(session, exchange).steps
    assert [step.starts_epoch for step in steps] == [False, True, False, True, False]
    assert [step.wait_s >= 0.01 for step in steps] == [False, True, False, True, False]


def test_batches_without_steps_are_one_event(exchange: Path) -> None:
    session = Session(str(exchange))
    batches, array = iter(int, 1), memoryview(bytearray(4))
    for count in 100, 1, 100:
        for _ in range(count):
            session.next_batch(lambda _: array, batches)
        session.step(MARKS)
        time.sleep(FLUSH_NS / 1e9)
    assert [step.examples for step in read(session, exchange).steps] == [4, 400]
    assert (exchange / "events").read_bytes().count(b"'wait'") == 3


def test_steps_of_another_thread_are_not_counted(exchange: Path) -> None:
    session = Session(str(exchange))
    for _ in range(3):
        session.step(OPTIMIZER, "torch", 1)
        other = Thread(target=session.step, args=(OPTIMIZER, "torch", 1))
        other.start()
        other.join()
    assert session.fast_thread
    assert len(read(session, exchange).steps) == 2


def test_a_second_optimizer_in_turns_adds_no_steps(exchange: Path) -> None:
    session = Session(str(exchange))
    for _ in range(10):
        session.step(OPTIMIZER, "torch", 1)
        session.step(OPTIMIZER, "torch", 2)
    assert len(read(session, exchange).steps) == 9
    for _ in range(OTHERS + 5):
        session.step(OPTIMIZER, "torch", 3)
    assert len(read(session, exchange).steps) == 9 + 1 + 5


def test_marks_replace_steps_of_an_optimizer(exchange: Path) -> None:
    session = Session(str(exchange))
    session.step(OPTIMIZER)
    for _ in range(5):
        session.step(FIT)
        session.step(OPTIMIZER)
    events = read(session, exchange)
    assert events.source == "fit"
    assert len(events.steps) == 4


def test_an_error_of_the_observation_ends_it_and_removes_the_hooks(exchange: Path) -> None:
    session, removed = Session(str(exchange)), []
    session.on_detach(lambda: removed.append(True))
    session.guarded(lambda: 1 / 0)
    assert removed == [True]
    assert not session.active
    events = ScriptEvents(exchange)
    events.read()
    assert events.error
    assert "ZeroDivisionError" in events.error


def test_without_its_folder_the_observation_ends() -> None:
    with exchange_folder() as folder:
        session = Session(str(folder))
    session.step(MARKS)
    assert not session.active


def test_a_command_ends_the_observation(exchange: Path) -> None:
    session = Session(str(exchange))
    ScriptEvents(exchange).send("detach")
    session.flush()
    assert not session.active


def test_an_invalid_event_is_an_error_and_not_executed(exchange: Path) -> None:
    (exchange / "events").write_text("'step'\t__import__('os')\n'step'\t1\n\xff\n", encoding="latin-1")
    events = ScriptEvents(exchange)
    events.read()
    assert events.error
    assert not events.steps


def test_a_function_is_called_once_after_the_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "watched_module.py").write_text("value = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    before, seen, begun = list(sys.meta_path), list[ModuleType](), list[str]()
    watch = ImportWatch({"watched_module": seen.append, "os": seen.append}, {"watched_module"}, begun.append)
    assert seen == [os]
    assert sys.meta_path[0] is watch
    import watched_module  # type: ignore[import-not-found]

    assert seen == [os, watched_module]
    assert watched_module.value == 1
    assert sys.meta_path == before
    assert begun == ["watched_module"]
    del sys.modules["watched_module"]
