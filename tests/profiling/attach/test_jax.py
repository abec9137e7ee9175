"""Tests of the observation of jitted functions: which calls are steps, and that they behave as without observation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from accelbench.profiling.attach.flops import FlopCount
from accelbench.profiling.attach.jax import EXAMINED, JittedFunction, hooks
from accelbench.profiling.attach.launches import SAMPLES
from accelbench.profiling.attach.session import FIT, Session
from accelbench.profiling.measure.script.events import ScriptEvents
from accelbench.profiling.measure.script.launch import exchange_folder

# JAX starts threads, and fast tests fork their process.
pytestmark = pytest.mark.slow


@pytest.fixture
def session() -> Iterator[Session]:
    with exchange_folder() as folder:
        yield Session(str(folder))


@pytest.fixture
def jit(session: Session) -> Callable[..., Any]:
    """`jax.jit` as a script finds it under observation."""
    module = SimpleNamespace(jit=jax.jit)
    hooks(session)["jax"](module)  # type: ignore[arg-type]
    return module.jit  # type: ignore[no-any-return]


def observed(session: Session) -> ScriptEvents:
    session.flush()
    events = ScriptEvents(Path(session._folder))
    events.read()
    assert events.error is None
    return events


def loss_of(params: Any, x: Any) -> Any:
    return jnp.mean((x @ params["w"]) ** 2)


def update(params: Any, x: Any) -> Any:
    loss, slopes = jax.value_and_grad(loss_of)(params, x)
    return jax.tree.map(lambda p, s: p - 0.1 * s, params, slopes), loss


def train(step: Callable[..., Any], count: int, each: Callable[[Any], object] = lambda params: None) -> Any:
    params = {"w": jnp.ones((4, 4))}
    for number in range(count):
        params, _ = step(params, jnp.full((2, 4), 1.0 + number))
        each(params)
    return params


def test_a_step_that_is_compiled_again_is_counted(session: Session, jit: Callable[..., Any]) -> None:
    step, params = jit(update), {"w": jnp.ones((4, 4))}
    for rows in (2, 2, 2, 3, 2, 3, 5):  # two new shapes after the first calls
        params, _ = step(params, np.ones((rows, 4), np.float32))
    count, seconds = observed(session).recompiled
    assert (count, seconds > 0) == (2, True)


def test_a_step_with_the_same_shapes_is_not_compiled_again(session: Session, jit: Callable[..., Any]) -> None:
    train(jit(update), 7)
    assert observed(session).recompiled == (0, 0.0)


@pytest.mark.parametrize("options", [{}, {"donate_argnums": 0}, {"keep_unused": True}])
def test_calls_that_get_back_their_results_are_steps(
    session: Session, jit: Callable[..., Any], options: dict[str, Any]
) -> None:
    evaluate, augment = jit(loss_of), jit(lambda x: x * 2)
    image, params = jnp.ones((2, 4)), {"w": jnp.ones((4, 4))}
    step = jit(**options)(update) if options else jit(update)
    for number in range(30):
        augment(image)
        augment(image)
        params, _ = step(params, augment(image))
        if number % 3 == 0:
            evaluate(params, image)
    events = observed(session)
    assert events.source == "jitted calls"
    assert len(events.steps) == 30 - 2  # the second call shows that it trains, and the steps begin at its end
    assert (evaluate.trains, augment.trains) == (None, False)


def test_results_and_transformations_are_those_without_observation(session: Session, jit: Callable[..., Any]) -> None:
    plain = train(jax.jit(update), 5)
    assert np.array_equal(train(jit(update), 5)["w"], plain["w"])
    function, x, params = jit(loss_of), jnp.arange(8.0).reshape(2, 4), {"w": jnp.ones((4, 4))}
    assert isinstance(function, jax.stages.Wrapped)
    assert (function.__name__, function.__wrapped__) == ("loss_of", loss_of)
    assert function.lower(params, x).compile()(params, x) == loss_of(params, x)
    assert jax.grad(function)(params, x)["w"].shape == (4, 4)
    assert jax.vmap(function, (None, 0))(params, x[None]).shape == (1,)
    assert jit(lambda x: function(params, x) + 1)(x) == loss_of(params, x) + 1
    assert jax.make_jaxpr(function)(params, x).jaxpr.outvars
    assert jit(jit(loss_of))(params, x) == loss_of(params, x)
    assert deepcopy(function)(params, x) == loss_of(params, x)
    assert observed(session).source == "jitted calls"


def test_a_jitted_method_is_bound(jit: Callable[..., Any]) -> None:
    class Model:
        factor = 3.0

        @partial(jit, static_argnums=0)
        def scaled(self, x: Any) -> Any:
            return self.factor * x

    assert Model().scaled(2.0) == 6.0
    assert isinstance(Model.scaled, JittedFunction)


def test_errors_of_the_function_reach_the_script(session: Session, jit: Callable[..., Any]) -> None:
    with pytest.raises(TypeError):
        jit(loss_of)({"w": jnp.ones((3, 3))}, jnp.ones((2, 4)))
    assert session.active


def test_a_function_that_only_evaluates_is_no_step(session: Session, jit: Callable[..., Any]) -> None:
    evaluate, params = jit(loss_of), {"w": jnp.ones((4, 4))}
    for _ in range(EXAMINED + 1):
        evaluate(params, jnp.ones((2, 4)))
    assert evaluate.trains is False
    assert observed(session).source is None


def test_the_last_results_are_waited_for(session: Session, jit: Callable[..., Any]) -> None:
    session.synchronize()
    session._execute("prefetch", "20", "1000000")
    params = train(jit(update), 3)
    session.synchronize()
    assert params["w"].is_ready()
    del params
    session.synchronize()


def test_a_step_that_is_drained_has_its_device_time(session: Session, jit: Callable[..., Any]) -> None:
    def heavy(params: Any, x: Any) -> Any:
        w = jax.lax.fori_loop(0, 60, lambda _, w: jnp.tanh(w @ w) / 16, params["w"])
        return {"w": w + 0 * x.sum()}, x.sum()

    step, params = jit(heavy), {"w": jnp.ones((256, 256))}
    for number in range(6):
        if number == 4:
            session._execute("drain")
        params, _ = step(params, jnp.ones(4))
        if number == 4:
            assert params["w"].is_ready()
    assert [found.kind for found in observed(session).steps] == ["plain", "plain", "drained", "plain"]


def counted(session: Session, step: Callable[..., Any], params: Any, x: Any) -> ScriptEvents:
    for number in range(5):
        if number == 3:
            session._execute("count")
        params, _ = step(params, x)
    return observed(session)


def test_flops_of_a_step_are_those_of_its_products(session: Session, jit: Callable[..., Any]) -> None:
    events = counted(session, jit(update, donate_argnums=0), {"w": jnp.ones((64, 64))}, jnp.ones((32, 64)))
    assert events.flops
    assert events.flops[1] is None
    assert events.flops[0] == {"float32": pytest.approx(2 * 2 * 32 * 64 * 64, rel=0.1)}
    assert [step.kind for step in events.steps] == ["plain", "counted", "plain"]


def test_flops_of_loops_are_not_counted(session: Session, jit: Callable[..., Any]) -> None:
    def looped(params: Any, x: Any) -> Any:
        w = jax.lax.fori_loop(0, x.shape[0], lambda _, w: w @ w, params["w"])
        return {"w": w}, x.sum()

    events = counted(session, jit(looped), {"w": jnp.ones((8, 8))}, jnp.ones((4, 8)))
    assert events.flops
    assert not events.flops[0]
    assert events.flops[1]


def test_fit_replaces_jitted_calls(session: Session, jit: Callable[..., Any]) -> None:
    train(jit(update), 6, lambda params: session.step(FIT))
    events = observed(session)
    assert (events.source, len(events.steps)) == ("fit", 5)


def test_functions_made_after_the_observation_are_jaxs_own(session: Session, jit: Callable[..., Any]) -> None:
    before = jit(update)
    session.detach()
    assert not isinstance(jit(update), JittedFunction)
    train(before, 3)
    assert before.examined == 0


def test_flops_are_counted_for_a_cpu_if_jax_analyses_no_function_for_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @partial(jax.jit, static_argnames="power", donate_argnums=0)
    def step(params: Any, x: Any, power: int = 2) -> Any:
        return jax.tree.map(lambda p: p - 0.1 * (x.T @ (x @ p)) ** power, params)

    arguments = {"w": jnp.ones((4, 8))}, jnp.ones((16, 4))
    counts = [FlopCount("jax"), FlopCount("jax")]
    counts[0].call("jax", step, arguments, {"power": 3})
    lowered = type(step.lower(*arguments))
    analyse = lowered.cost_analysis

    def only_for_a_cpu(self: Any) -> Any:
        return analyse(self) if jax.config.jax_default_device else None

    monkeypatch.setattr(lowered, "cost_analysis", only_for_a_cpu)
    counts[1].call("jax", step, arguments, {"power": 3})
    assert counts[1].reason is None
    assert counts[1].flops == counts[0].flops
    assert counts[1].flops["float32"] >= 2 * (2 * 16 * 4 * 8)
    assert not jax.config.jax_default_device


def test_launches_of_many_calls_leave_the_training_as_it_is(session: Session, jit: Callable[..., Any]) -> None:
    plain = train(jax.jit(update), 12)

    def each(params: Any) -> None:
        each.count += 1  # type: ignore[attr-defined]
        if each.count == 5:  # type: ignore[attr-defined]
            session._execute("launches")

    each.count = 0  # type: ignore[attr-defined]
    assert np.array_equal(train(jit(update, donate_argnums=0), 12, each)["w"], plain["w"])
    events = observed(session)
    assert events.recompiled == (0, 0.0)
    seconds, refused = events.launches or ([], "no event")
    assert refused is None
    assert len(seconds) == SAMPLES
    assert min(seconds) > 0


def _printing(params: Any, x: Any) -> Any:
    jax.debug.print("{}", x.sum())
    return update(params, x)


def _growing(params: Any, x: Any) -> Any:
    return {"w": jnp.concatenate([params["w"], params["w"]])}, x


def _without_work(params: Any, x: Any) -> Any:
    return {"w": params["w"][::-1][::-1]}, x


@pytest.mark.parametrize("function", [_printing, _growing, _without_work])
def test_functions_that_no_loop_can_repeat_are_refused(
    session: Session, jit: Callable[..., Any], function: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    step = jit(function)
    session._execute("launches")
    train(step, 6)
    jax.effects_barrier()
    assert capfd.readouterr().out.count("\n") == (6 if function is _printing else 0)
    seconds, refused = observed(session).launches or ([], None)
    assert not seconds
    assert refused


def test_a_step_with_further_compiled_functions_is_no_single_launch(session: Session, jit: Callable[..., Any]) -> None:
    step, augment = jit(update), jit(lambda x: x * 2)
    params = {"w": jnp.ones((4, 4))}
    for number in range(10):
        if number == 4:
            session._execute("launches")
        params, _ = step(params, augment(jnp.ones((2, 4))))
    seconds, refused = observed(session).launches or ([], None)
    assert not seconds
    assert refused
